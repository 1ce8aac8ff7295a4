(ns ctxmgr.door.handlers
  "The handler of each endpoint, built on XTDB's public API. Reads and writes the node.

  A handler takes a request whose :params and :body have been checked, and returns a reply of
  ctxmgr.door.replies; exceptions become error replies. Waits are finished before it is called."
  (:require [ctxmgr.door.edn :as edn]
            [ctxmgr.door.json :as json]
            [ctxmgr.door.links :as links]
            [ctxmgr.door.replies :as replies]
            [ctxmgr.door.snapshots :as snapshots]
            [xtdb.api :as xt]
            [xtdb.codec :as codec]
            [xtdb.db :as db]
            [xtdb.error :as err]
            [xtdb.io :as xio]
            [xtdb.query :as q])
  (:import [java.io Closeable]
           [java.time Instant ZoneOffset]
           [java.time.format DateTimeFormatter]
           [java.util Date]))

(defn- basis [{:keys [valid-time tx-time tx-id]}]
  {::xt/valid-time valid-time
   ::xt/tx-time tx-time
   ::xt/tx-id tx-id})

(defn- db-of [{:keys [node params]}]
  (xt/db node (basis params)))

(defn- eid-of [{:keys [params]}]
  (or (:eid-edn params) (:eid-json params) (:eid params)))

(defn- rows-of
  "A reply with the rows of a cursor, which :open opens on the thread that sends them."
  [{:keys [query-timeout-ms]} rows]
  (merge {:status 200, :timeout-ms query-timeout-ms} rows))

;; ---- status

(defn- ingester-failed? [node]
  (some? (db/ingester-error (:tx-ingester node))))

(defn status [{:keys [node] :as request}]
  (let [status-map (assoc (xt/status node) :ingester-failed? (ingester-failed? node))]
    (replies/value request (if (false? (:xtdb.zk/zk-active? status-map)) 500 200) status-map)))

(defn health [{:keys [node]}]
  (if (ingester-failed? node)
    (replies/text 503 "ingester failed\n")
    (replies/text 200 "ok\n")))

(defn attribute-stats [{:keys [node] :as request}]
  (replies/value request 200 (xt/attribute-stats node)))

(defn active-queries [{:keys [node] :as request}]
  (replies/value request 200 (apply list (xt/active-queries node))))

(defn recent-queries [{:keys [node] :as request}]
  (replies/value request 200 (apply list (xt/recent-queries node))))

(defn slowest-queries [{:keys [node] :as request}]
  (replies/value request 200 (apply list (xt/slowest-queries node))))

;; ---- documents

(defn db-basis [request]
  (replies/value request 200 (xt/db-basis (db-of request))))

(defn- history-options [{:keys [with-docs with-corrections start-valid-time end-valid-time
                                start-tx-time end-tx-time start-tx-id end-tx-id]}]
  {:with-docs? with-docs
   :with-corrections? with-corrections
   :start-valid-time start-valid-time
   :end-valid-time end-valid-time
   :start-tx {::xt/tx-time start-tx-time, ::xt/tx-id start-tx-id}
   :end-tx {::xt/tx-time end-tx-time, ::xt/tx-id end-tx-id}})

(defn- open-history
  "If the engine rejects the sort order, it leaves its snapshot open, and at shutdown it waits a
  minute for it. So we pass our own snapshot; closing it closes everything opened in it."
  [{:keys [index-store] :as db} eid sort-order options]
  (let [snapshot ^Closeable (db/open-index-snapshot index-store)]
    (try
      (->> (xt/open-entity-history (assoc db :index-snapshot snapshot) eid sort-order options)
           iterator-seq
           (xio/->cursor #(.close snapshot)))
      (catch Throwable e
        (.close snapshot)
        (throw e)))))

(defn- history [{:keys [params] :as request} eid]
  (let [db (db-of request)]
    (rows-of request
             {:envelope? true
              :open #(open-history db eid (:sort-order params) (history-options params))})))

(defn- linked-document [db document]
  (let [link (links/linker db)]
    (into (empty document)
          (map (fn [[k v]]
                 [k (cond
                      (= k :xt/id) v
                      (or (set? v) (vector? v)) (into (empty v) (map link) v)
                      :else (link v))]))
          document)))

(def ^:private newest
  "As a basis, selects every transaction in an index snapshot: none has a greater id, and a
  transaction is indexed in one write, so that a snapshot never contains part of one."
  Long/MAX_VALUE)

(defn- with-basis
  "Call `f` with an index snapshot and the valid time and transaction id of the request's basis;
  the id is nil if the basis is before the first transaction. A single snapshot is used for both;
  xt/db would take two and cost three times as much."
  [{:keys [snapshots] {:keys [valid-time tx-time tx-id]} :params} f]
  (snapshots/with-snapshot snapshots
    (fn [snapshot]
      (f snapshot
         (or valid-time (Date.))
         (if (or tx-time tx-id)
           (::xt/tx-id (db/resolve-tx snapshot {::xt/tx-time tx-time, ::xt/tx-id tx-id}))
           newest)))))

(defn- fetch-document
  "Check the cache first: the store would open a snapshot even for a cache hit."
  [{{:keys [cache] :as document-store} :document-store} content-hash]
  (or (get cache content-hash)
      (let [id (codec/safe-id (codec/new-id content-hash))]
        (get (db/fetch-docs document-store #{id}) id))))

(defn- under-public-id
  "Like codec/crux->xt, but only for the id key of stored documents."
  [{:crux.db/keys [id] :as document}]
  (-> document (dissoc :crux.db/id) (assoc :xt/id id)))

(defn- find-document
  "The document visible at the basis, or nil. Looks up only its hash, as queries do."
  [{:keys [node] :as request} eid]
  (with-basis request
    (fn [snapshot valid-time tx-id]
      (when-let [content-hash (when tx-id (db/entity-as-of-resolver snapshot eid valid-time tx-id))]
        (some-> (fetch-document node content-hash)
                codec/keep-non-evicted-doc
                under-public-id)))))

(defn- document [{:keys [params] :as request} eid]
  (if-let [found (find-document request eid)]
    (replies/value request 200 (if (:link-entities? params)
                                 (linked-document (db-of request) found)
                                 found))
    (replies/value request 404 {:error (str eid " entity not found")})))

(defn entity [{:keys [params] :as request}]
  (let [eid (eid-of request)]
    (when-not eid
      (throw (err/illegal-arg :missing-eid {::err/message "Missing eid"})))
    (if (:history params)
      (history request eid)
      (document request eid))))

(defn entity-tx [request]
  (let [eid (eid-of request)]
    (if-let [{::xt/keys [tx-time] :as found} (with-basis request
                                               (fn [snapshot valid-time tx-id]
                                                 (q/entity-tx {:valid-time valid-time, :tx-id tx-id} snapshot eid)))]
      (replies/value request 200 found (replies/last-modified tx-time))
      (replies/value request 404 {:error (str eid " entity-tx not found")}))))

;; ---- queries

(defn- query-text->form [query]
  (if (string? query)
    (try (edn/read-text query) (catch Exception _ query))
    query))

(defn- file-name [extension]
  (str "attachment; filename=query-"
       (.format (.withZone (DateTimeFormatter/ofPattern "yyyyMMdd'T'HHmmss'Z'") ZoneOffset/UTC) (Instant/now))
       "." extension))

(defn- download-headers [format]
  (when (#{:csv :tsv} format)
    {"Content-Disposition" (file-name (name format))}))

(defn- linked-rows [db rows]
  (let [link (links/linker db)]
    (map (fn [row] (if (map? row) row (mapv link row))) rows)))

(defn query [{:keys [params body format query-timeout-ms] :as request}]
  (let [query (query-text->form (or (:query body) (:query-edn params)))
        in-args (or (:in-args body) (:in-args-edn params) (:in-args-json params))]
    (when-not query
      (throw (err/illegal-arg :no-query {::err/message "No query provided"})))
    (let [db (db-of request)]
      {:status 200
       :timeout-ms (or (when (map? query) (:timeout query))
                       (:query-timeout db)
                       query-timeout-ms)
       :headers (download-headers format)
       :header (when (map? query) (:find query))
       :rows (when (:link-entities? params) #(linked-rows db (distinct %)))
       :open #(xt/open-q* db query (object-array in-args))})))

;; ---- transactions

(defn submit-tx [{:keys [node body]
                  {:keys [read-only?]} :settings
                  :as request}]
  (if read-only?
    (replies/text 403 "forbidden: read-only HTTP node")
    (let [{::xt/keys [tx-time] :as tx} (xt/submit-tx node (:tx-ops body) (or (::xt/submit-tx-opts body) {}))]
      (replies/value request 202 tx (replies/last-modified tx-time)))))

(defn tx-committed [{:keys [node params] :as request}]
  (try
    (replies/value request 200 {:tx-committed? (xt/tx-committed? node {::xt/tx-id (:tx-id params)})})
    (catch xtdb.api.NodeOutOfSyncException _
      (replies/empty-reply 500 {"Cache-Control" "must-revalidate,no-cache,no-store"}))))

(defn tx-log [{:keys [node params format] :as request}]
  (let [{::xt/keys [tx-time]} (xt/latest-completed-tx node)]
    (rows-of request
             {:headers (replies/last-modified tx-time)
              :envelope? true
              :rows (when (= format :json) #(map json/tx-log-entry %))
              :open #(xt/open-tx-log node (:after-tx-id params) (:with-ops? params))})))

(defn latest-completed-tx [{:keys [node] :as request}]
  (if-let [tx (xt/latest-completed-tx node)]
    (replies/value request 200 tx)
    (replies/value request 404 {:error "No latest-completed-tx found."})))

(defn latest-submitted-tx [{:keys [node] :as request}]
  (if-let [tx (xt/latest-submitted-tx node)]
    (replies/value request 200 tx)
    (replies/value request 404 {:error "No latest-submitted-tx found."})))

;; ---- waiting

(defn await-tx [{:keys [params] :as request}]
  {:wait [::xt/tx-id (:tx-id params)]
   :timeout-ms (:timeout params)
   :then (fn [{::xt/keys [tx-time] :as tx}]
           (replies/value request 200 (select-keys tx [::xt/tx-time ::xt/tx-id])
                          (replies/last-modified tx-time)))})

(defn- tx-time-only [request]
  (fn [{::xt/keys [tx-time]}]
    (replies/value request 200 {::xt/tx-time tx-time} (replies/last-modified tx-time))))

(defn await-tx-time [{:keys [params] :as request}]
  {:wait [::xt/tx-time (:tx-time params)]
   :timeout-ms (:timeout params)
   :then (tx-time-only request)})

(defn sync-tx [{:keys [node params] :as request}]
  (let [then (tx-time-only request)]
    (if-let [{::xt/keys [tx-id]} (xt/latest-submitted-tx node)]
      {:wait [::xt/tx-id tx-id], :timeout-ms (:timeout params), :then then}
      (then nil))))
