(ns ctxmgr.door.replies
  "The replies of handlers, as plain maps, and the replies to exceptions. Pure.

    {:status :headers :body}             bytes, sent at once
    {:status :headers :rows}             rows, streamed; see ctxmgr.door.work
    {:wait {:on :timeout-ms} :then f}    a wait, followed by the reply that f returns
  "
  (:require [ctxmgr.door.formats :as formats])
  (:import [java.time Instant ZoneOffset]
           [java.time.format DateTimeFormatter]
           [java.util Date]))

(defn value
  "One value in the format that the request accepts."
  ([request status x] (value request status x nil))
  ([{:keys [format envelope?]} status x headers]
   {:status status
    :headers (assoc headers "Content-Type" (formats/content-types format))
    :body (formats/encode format envelope? x)}))

(defn text [status ^String s]
  {:status status, :body (.getBytes s "UTF-8")})

(defn empty-reply
  ([status] (empty-reply status nil))
  ([status headers] {:status status, :headers headers}))

(def ^:private http-date
  (.withZone (DateTimeFormatter/ofPattern "EEE, dd MMM yyyy HH:mm:ss 'GMT'" java.util.Locale/US)
             ZoneOffset/UTC))

(defn last-modified [^Date d]
  (when d
    {"Last-Modified" (.format ^DateTimeFormatter http-date (Instant/ofEpochMilli (.getTime d)))}))

(defn- error-data [^Throwable e]
  (if (or (instance? xtdb.IllegalArgumentException e)
          (instance? xtdb.api.NodeOutOfSyncException e))
    [400 (ex-data e)]
    [500 {:type "exception", :class (.getName (class e))}]))

(defn failure
  "The reply to a request whose handler threw `e`."
  [request ^Throwable e]
  (if-let [malformed (:malformed (ex-data e))]
    (value request 400 {:error (str "Malformed \"" malformed "\" request.")})
    (let [[status data] (error-data e)]
      (value request status data))))
