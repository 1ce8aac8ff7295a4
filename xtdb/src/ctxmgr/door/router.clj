(ns ctxmgr.door.router
  "From a request to a reply: path, token, parameters, body, wait, handler, in this order.

  `routes` is the API. A Request holds everything that handling needs, apart from the connection."
  (:require [clojure.string :as str]
            [ctxmgr.door.auth :as auth]
            [ctxmgr.door.formats :as formats]
            [ctxmgr.door.handlers :as handlers]
            [ctxmgr.door.replies :as replies]
            [ctxmgr.door.specs :as specs]
            [xtdb.api :as xt])
  (:import [java.net URLDecoder]
           [java.nio.charset StandardCharsets]
           [java.util HashMap]))

(declare describe)

;; A record, because a map with this many keys is slow to read and to copy.
(defrecord Request [method path query-string header read-body node snapshots settings query-timeout-ms
                    format envelope? params body])

(def ^:private values #{:edn :json :transit})
(def ^:private tables #{:edn :json :transit :csv :tsv})

(defn- endpoint [handler spec & {:as more}]
  (merge {:handler handler, :spec spec, :offers values, :envelope? true} more))

(def ^:private get-query
  (endpoint handlers/query :query :offers tables :envelope? false))

(def ^:private post-query
  (assoc get-query :body :query-body :reads {:edn :edn, :transit :transit}))

(def routes
  "path -> method -> endpoint."
  {"/_xtdb/status" {:get (endpoint handlers/status :none)}
   "/_xtdb/db" {:get (endpoint handlers/db-basis :db)}
   "/_xtdb/entity" {:get (endpoint handlers/entity :entity :envelope? false)}
   "/_xtdb/entity-tx" {:get (endpoint handlers/entity-tx :entity-tx)}
   "/_xtdb/query" {:get get-query, :post post-query}
   "/_xtdb/query.csv" {:get (assoc get-query :format :csv), :post (assoc post-query :format :csv)}
   "/_xtdb/query.tsv" {:get (assoc get-query :format :tsv), :post (assoc post-query :format :tsv)}
   "/_xtdb/submit-tx" (let [submit (endpoint handlers/submit-tx :none :body :submit-tx
                                             :reads {:edn :edn, :json :json, :transit :transit})]
                        {:post submit, :options submit})
   "/_xtdb/tx-committed" {:get (endpoint handlers/tx-committed :tx-committed)}
   "/_xtdb/tx-log" {:get (endpoint handlers/tx-log :tx-log)}
   "/_xtdb/latest-completed-tx" {:get (endpoint handlers/latest-completed-tx :await)}
   "/_xtdb/latest-submitted-tx" {:get (endpoint handlers/latest-submitted-tx :none)}
   "/_xtdb/await-tx" {:get (endpoint handlers/await-tx :await-tx)}
   "/_xtdb/await-tx-time" {:get (endpoint handlers/await-tx-time :await-tx-time)}
   "/_xtdb/sync" {:get (endpoint handlers/sync-tx :sync)}
   "/_xtdb/attribute-stats" {:get (endpoint handlers/attribute-stats :none :envelope? false)}
   "/_xtdb/active-queries" {:get (endpoint handlers/active-queries :none)}
   "/_xtdb/recent-queries" {:get (endpoint handlers/recent-queries :none)}
   "/_xtdb/slowest-queries" {:get (endpoint handlers/slowest-queries :none)}
   "/_xtdb/swagger.json" {:get (endpoint #'describe :none :envelope? false)}
   "/_xtdb/sparql" {:get {:reply (replies/empty-reply 406)}, :post {:reply (replies/empty-reply 406)}}
   "/" {:get {:reply (replies/empty-reply 302 {"Location" "/_xtdb/query"})}}
   "/ping" {:get {:open? true, :reply (replies/text 200 "pong\n")}}
   "/healthz" {:get {:open? true, :format :edn, :handler handlers/health, :spec :none}}})

(defn- describe [request]
  (replies/value request 200
                 {:swagger "2.0"
                  :info {:title "XTDB API", :version "1.24.3"}
                  :paths (into (sorted-map)
                               (for [[path methods] routes
                                     :when (str/starts-with? path "/_xtdb/")]
                                 [path (zipmap (keys methods)
                                               (repeat {:responses {200 {:description "the reply"}}}))]))}))

(defn- unmatched [path method]
  (if-let [methods (routes path)]
    (if (= method :options)
      (replies/empty-reply 200 {"Allow" (str/join "," (map (comp str/upper-case name)
                                                           (concat (filter methods [:get :post]) [:options])))})
      (replies/empty-reply 405))
    (replies/empty-reply 404)))

(defn- refusal
  "The reply to an unauthorized request, nil if the request is authorized."
  [{:keys [token jwks]} {:keys [open?]} header]
  (when-not open?
    (cond
      (and token (not (auth/token-ok? token (auth/bearer (header "Authorization")))))
      (assoc (replies/text 401 "a valid bearer token is needed\n")
             :headers {"WWW-Authenticate" "Bearer", "Connection" "close"})

      (and jwks (not (auth/jwt-ok? jwks
                                   (or (header "x-amzn-oidc-accesstoken")
                                       (auth/bearer (header "Authorization")))
                                   (quot (System/currentTimeMillis) 1000))))
      (replies/text 401 "JWT Failed to validate"))))

(defn- kebab [^String s]
  (if (= s (.toLowerCase s))
    s
    (str/replace s #"([a-z0-9])([A-Z])" (fn [[_ a b]] (str a "-" (str/lower-case b))))))

(defn- url-decode ^String [^String s]
  (if (or (<= 0 (.indexOf s (int \%))) (<= 0 (.indexOf s (int \+))))
    (URLDecoder/decode s StandardCharsets/UTF_8)
    s))

(defn- param-key
  "Look up the name as it is; most requests use canonical names, which need no conversion."
  [^String k]
  (or (.get ^HashMap specs/param-keys k)
      (keyword (kebab (url-decode k)))))

(defn- with-param [params ^String pair]
  (let [middle (.indexOf pair (int \=))
        k (if (neg? middle) pair (.substring pair 0 middle))
        v (if (neg? middle) "" (.substring pair (inc middle)))]
    (if (str/blank? k)
      params
      (assoc params (param-key k) (url-decode v)))))

(defn- raw-params [^String query-string]
  (if (nil? query-string)
    {}
    (loop [params {}, from 0]
      (let [end (.indexOf query-string (int \&) (int from))]
        (if (neg? end)
          (with-param params (.substring query-string from))
          (recur (with-param params (.substring query-string from end)) (inc end)))))))

(defn- awaited
  "Call the function `reply` immediately, or after the transaction that the request waits for."
  [{:keys [params]} reply]
  (if-let [tx-id (:await-tx-id params)]
    {:wait [::xt/tx-id tx-id], :timeout-ms (:await-tx-timeout params), :then (fn [_] (reply))}
    (reply)))

(defn- checked
  "Decode and check parameters and body, then wait and call the handler."
  [{:keys [handler spec body reads]} {:keys [query-string header read-body] :as request}]
  (let [content (when body (read-body))]
    (if (= content :too-long)
      (assoc (replies/text 413 "the request body is too long\n") :headers {"Connection" "close"})
      (let [decoded (when body (formats/decode-body content (header "Content-Type") reads))
            [body-value body-error] (when body (specs/body-params body decoded))
            [params params-error] (specs/url-params spec (raw-params query-string))]
        (if-let [error (or params-error body-error)]
          (replies/value request 400 error)
          (let [request (assoc request :params params, :body body-value)]
            (awaited request #(handler request))))))))

(defn- serve [{:keys [offers format reply] :as endpoint} {:keys [header] :as request}]
  (if reply
    reply
    (if-let [format (or format (formats/negotiate (header "Accept") offers))]
      (let [request (assoc request :format format, :envelope? (:envelope? endpoint))]
        (try
          (assoc (checked endpoint request) :request request)
          (catch Throwable e
            (replies/failure request e))))
      (replies/empty-reply 406))))

(defn route
  "The reply to `request`, a Request. Its :header and :read-body are functions; the fields
  after :query-timeout-ms are filled in here."
  [{:keys [method path header settings] :as request}]
  (if-let [endpoint (get (routes path) method)]
    (or (refusal settings endpoint header)
        (serve endpoint request))
    (unmatched path method)))
