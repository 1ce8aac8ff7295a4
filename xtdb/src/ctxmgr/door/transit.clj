(ns ctxmgr.door.transit
  "Reads and writes Transit (JSON) with XTDB's own tags. Touches only the given streams."
  (:require [cognitect.transit :as transit]
            [ctxmgr.door.links :as links]
            [xtdb.codec :as codec])
  (:import [ctxmgr.door.links EntityRef]
           [java.io InputStream OutputStream]
           [java.util Base64]
           [xtdb.codec Id]
           [xtdb.query_state QueryState]))

(def ^:private write-handlers
  {Id (transit/write-handler "xtdb/oid" str)
   EntityRef (transit/write-handler "xtdb.http/entity-ref" :eid)
   QueryState (transit/write-handler "xtdb/query-state" #(into {} %))
   (Class/forName "[B") (transit/write-handler "xtdb/base64" #(.encodeToString (Base64/getEncoder) ^bytes %))})

(def ^:private read-handlers
  {"xtdb/oid" (transit/read-handler codec/new-id)
   "xtdb/base64" (transit/read-handler codec/base64-reader)
   "xtdb.http/entity-ref" (transit/read-handler links/->EntityRef)})

(defn write [x ^OutputStream out]
  (transit/write (transit/writer out :json {:handlers write-handlers}) x))

(defn read-form [^InputStream in]
  (transit/read (transit/reader in :json {:handlers read-handlers})))
