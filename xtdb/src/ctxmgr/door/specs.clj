(ns ctxmgr.door.specs
  "Validation of request parameters and bodies, and the error replies. Pure.

  Each spec is a row of `specs`. URL parameters are decoded from text; body parameters are only
  checked. Errors have the same form as those of the official server, including the names,
  because its clients rely on them."
  (:require [clojure.data.json :as json]
            [ctxmgr.door.edn :as edn]
            [xtdb.codec :as codec])
  (:import [clojure.lang IKVReduce]
           [java.util HashMap Map]))

(def ^:private invalid :clojure.spec.alpha/invalid)

(defn- decode-int [s]
  (or (when (re-matches #"[-+]?\d{1,19}" s)
        (try (Long/parseLong s) (catch NumberFormatException _)))
      s))

(defn- decode-boolean [s]
  (case s "true" true, "false" false, s))

(defn- decode-edn [s]
  (try (edn/read-text s) (catch Exception _ invalid)))

(defn- decode-json [s]
  (try (json/read-str s :key-fn keyword) (catch Exception _ invalid)))

(defn- valid-id?
  "Strings and keywords are always valid; asking the engine would compute a hash."
  [x]
  (or (string? x)
      (and (not (identical? x invalid))
           (or (keyword? x) (codec/valid-id? x)))))

(def ^:private kinds
  "kind -> how its text is decoded, its predicate, and the predicate's name in an error."
  {:int {:decode decode-int, :ok? int?, :pred "clojure.core/int?"}
   :boolean {:decode decode-boolean, :ok? boolean?, :pred "clojure.core/boolean?"}
   :date {:decode edn/read-date, :ok? inst?, :pred "clojure.core/inst?"}
   :text-id {:decode identity, :ok? valid-id?, :pred "xtdb.codec/valid-id?"}
   :edn-id {:decode decode-edn, :ok? valid-id?, :pred "xtdb.codec/valid-id?"}
   :json-id {:decode decode-json, :ok? valid-id?, :pred "xtdb.codec/valid-id?"}
   :edn {:decode decode-edn, :ok? #(not= % invalid), :pred "clojure.core/any?"}
   :edn-vector {:decode decode-edn, :ok? vector?, :pred "clojure.core/vector?"}
   :json-vector {:decode decode-json, :ok? vector?, :pred "clojure.core/vector?"}
   ;; Any keyword: the engine rejects unknown ones.
   :order {:decode keyword, :ok? keyword?, :pred "clojure.core/keyword?"}
   :any {:ok? any?, :pred "clojure.core/any?"}
   :vector {:ok? vector?, :pred "clojure.core/vector?"}
   :tx-opts {:ok? map?, :pred "clojure.core/map?"}})

(defn- util [k] (keyword "xtdb.http-server.util" (name k)))
(defn- server [k] (keyword "xtdb.http-server" (name k)))
(defn- entity [k] (keyword "xtdb.http-server.entity" (name k)))
(defn- query [k] (keyword "xtdb.http-server.query" (name k)))

(def ^:private await-params
  [[:await-tx-id (server :await-tx-id) :int]
   [:await-tx-time (server :await-tx-time) :date]
   [:await-tx-timeout (server :await-tx-timeout) :int]])

(def ^:private basis-params
  [[:valid-time (util :valid-time) :date]
   [:tx-time (util :tx-time) :date]
   [:tx-id (util :tx-id) :int]])

(def ^:private id-params
  [[:eid (util :eid) :text-id]
   [:eid-edn (util :eid-edn) :edn-id]
   [:eid-json (util :eid-json) :json-id]])

(def ^:private history-params
  [[:history (entity :history) :boolean]
   [:sort-order (entity :sort-order) :order]
   [:with-docs (entity :with-docs) :boolean]
   [:with-corrections (entity :with-corrections) :boolean]
   [:start-valid-time (entity :start-valid-time) :date]
   [:end-valid-time (entity :end-valid-time) :date]
   [:start-tx-time (entity :start-tx-time) :date]
   [:end-tx-time (entity :end-tx-time) :date]
   [:start-tx-id (entity :start-tx-id) :int]
   [:end-tx-id (entity :end-tx-id) :int]])

(def ^:private timeout-param [:timeout (util :timeout) :int])
(def ^:private links-param [:link-entities? (util :link-entities?) :boolean])

(defn- merged
  "A spec of the given parameters and those for awaiting a transaction."
  [spec-name own & {:keys [required]}]
  {:name spec-name
   :form (list 'clojure.spec.alpha/merge spec-name :xtdb.http-server/await-params)
   :params (concat own await-params)
   :required required})

(defn- plain [spec-name form params & {:keys [required]}]
  {:name spec-name, :form form, :params params, :required required})

(defn- indexed
  "Add the parameters by key, in the order in which errors list them."
  [{:keys [params] :as spec}]
  (assoc spec :by-key (into {} (map (fn [[k spec-name kind]]
                                      [k (assoc (kinds kind) :kind kind, :spec-name spec-name)]))
                            params)))

(def ^:private specs
  (update-vals
   {:none (plain :ctxmgr.door/none nil [])
    :await (merged :xtdb.http-server/latest-completed-tx-spec [])
    :db (merged :xtdb.http-server/db-spec basis-params)
    :entity (merged (entity :query-params) (concat id-params basis-params history-params [links-param]))
    :entity-tx (merged (server :entity-tx-spec) (concat id-params basis-params)
                       :required [:eid-edn :eid-json :eid])
    :query (merged (query :query-params)
                   (concat [[:query-edn (query :query-edn) :edn]
                            [:in-args-edn (query :in-args-edn) :edn-vector]
                            [:in-args-json (query :in-args-json) :json-vector]]
                           basis-params [links-param]))
    :tx-log (merged (server :tx-log-spec)
                    [[:with-ops? (server :with-ops?) :boolean]
                     [:after-tx-id (server :after-tx-id) :int]])
    :tx-committed (merged (server :tx-committed-spec) [[:tx-id (util :tx-id) :int]]
                          :required [:tx-id])
    :await-tx (plain (server :await-tx-spec)
                     '(clojure.spec.alpha/keys :req-un [:xtdb.http-server.util/tx-id]
                                               :opt-un [:xtdb.http-server.util/timeout])
                     [timeout-param [:tx-id (util :tx-id) :int]]
                     :required [:tx-id])
    :await-tx-time (plain (server :await-tx-time-spec)
                          '(clojure.spec.alpha/keys :req-un [:xtdb.http-server.util/tx-time]
                                                    :opt-un [:xtdb.http-server.util/timeout])
                          [timeout-param [:tx-time (util :tx-time) :date]]
                          :required [:tx-time])
    :sync (plain (server :sync-spec)
                 '(clojure.spec.alpha/keys :opt-un [:xtdb.http-server.util/timeout])
                 [timeout-param])
    :submit-tx (plain (server :submit-tx-spec)
                      '(clojure.spec.alpha/keys :opt [:xtdb.api/submit-tx-opts]
                                                :req-un [:xtdb.http-server/tx-ops])
                      [[:xtdb.api/submit-tx-opts :xtdb.api/submit-tx-opts :tx-opts]
                       [:tx-ops (server :tx-ops) :vector]]
                      :required [:tx-ops])
    :query-body (plain (query :body-params)
                       '(clojure.spec.alpha/keys :req-un [:xtdb.http-server.query/query]
                                                 :opt-un [:xtdb.http-server.query/in-args])
                       [[:in-args (query :in-args) :vector]
                        [:query (query :query) :any]]
                       :required [:query])}
   indexed))

(def ^HashMap param-keys
  "The keys of URL parameters by name. Not modified after it is created."
  (HashMap. ^Map (into {} (for [{:keys [by-key]} (vals specs)
                                k (keys by-key)
                                :when (simple-keyword? k)]
                            [(name k) k]))))

(defn- spec-text [{:keys [form by-key required]}]
  (let [key->spec (into (empty by-key) (map (fn [[k {:keys [spec-name]}]] [k spec-name])) by-key)
        optional (remove (set required) (keys key->spec))]
    (str "(spec-tools.core/spec "
         (pr-str (apply array-map
                        (concat [:spec form
                                 :type :map
                                 :spec-tools.parse/key->spec key->spec
                                 :spec-tools.parse/keys (set (keys key->spec))]
                                (when required [:spec-tools.parse/keys-req (set required)])
                                (when (seq optional) [:spec-tools.parse/keys-opt (set optional)])
                                [:leaf? false])))
         ")")))

(defn- missing-pred [required]
  (let [tests (map (fn [k] (format "(clojure.core/contains? %% %s)" k)) required)]
    (format "(clojure.core/fn [%%] %s)"
            (if (next tests)
              (str "(clojure.core/or " (apply str (interpose " " tests)) ")")
              (first tests)))))

(defn- problem [spec path pred value via]
  {:path path, :pred pred, :val value, :via (into [(:name spec)] via), :in path})

(defn- missing-problems [{:keys [required] :as spec} value]
  (when (and required (not-any? #(contains? value %) required))
    [(problem spec [] (missing-pred required) value [])]))

(defn- tx-time-problems [spec {:xtdb.api/keys [tx-time] :as opts}]
  (when (and (map? opts) (contains? opts :xtdb.api/tx-time) (not (inst? tx-time)))
    [(problem spec [:xtdb.api/submit-tx-opts :xtdb.api/tx-time] "xtdb.api/date?" tx-time
              [:xtdb.api/submit-tx-opts :xtdb.api/tx-time])]))

(defn- fits? [{:keys [by-key required]} value]
  (and (or (nil? required) (boolean (some #(contains? value %) required)))
       (.kvreduce ^IKVReduce value
                  (fn [_ k v]
                    (let [{:keys [ok? kind]} (by-key k)]
                      (if (and (ok? v) (not (identical? kind :tx-opts)))
                        true
                        (reduced false))))
                  true)))

(defn- own-problems [{:keys [by-key] :as spec} value]
  (for [[k {:keys [ok? pred kind spec-name]}] by-key
        :when (contains? value k)
        :let [v (get value k)]
        problem (if (ok? v)
                  (when (= kind :tx-opts) (tx-time-problems spec v))
                  [(problem spec [k] pred v [spec-name])])]
    problem))

(defn- problems-of [spec value]
  (when-not (fits? spec value)
    (seq (concat (missing-problems spec value) (own-problems spec value)))))

(defn- reread-id-problems
  "When the official server explains another problem, it parses eid-edn a second time. A string
  id, although valid, then becomes a symbol and is listed as a problem too."
  [{:keys [by-key] :as spec} {:keys [eid-edn]}]
  (when (and (string? eid-edn) (not (valid-id? (decode-edn eid-edn))))
    (let [{:keys [pred spec-name]} (by-key :eid-edn)]
      [(problem spec [:eid-edn] pred eid-edn [spec-name])])))

(defn- in-key-order [{:keys [by-key]} problems]
  (let [place (zipmap (keys by-key) (range))]
    (sort-by #(get place (first (:path %)) -1) problems)))

(defn- misfit [spec problems raw in]
  {:spec (spec-text spec)
   :problems (vec problems)
   :type :reitit.coercion/request-coercion
   :coercion :spec
   :value raw
   :in [:request in]})

(defn- decoded [{:keys [by-key]} raw]
  (.kvreduce ^IKVReduce raw
             (fn [value k text]
               (if-let [{:keys [decode]} (by-key k)]
                 (assoc value k (decode text))
                 value))
             {}))

(defn url-params
  "Decode `raw`, a map of keyword to text. Returns [value nil], or [nil error] to reply with.
  Throws RuntimeException for an invalid date."
  [spec-key raw]
  (let [spec (specs spec-key)
        value (decoded spec raw)]
    (if-let [problems (problems-of spec value)]
      [nil (misfit spec (in-key-order spec (concat problems (reread-id-problems spec value)))
                   raw :query-params)]
      [value nil])))

(defn body-params
  "Check a decoded body. Returns [value nil], or [nil error] to reply with."
  [spec-key body]
  (let [{:keys [by-key] :as spec} (specs spec-key)
        value (when (map? body) (select-keys body (keys by-key)))
        problems (if value
                   (problems-of spec value)
                   [(problem spec [] "clojure.core/map?" body [])])]
    (if problems
      [nil (misfit spec problems body :body-params)]
      [value nil])))
