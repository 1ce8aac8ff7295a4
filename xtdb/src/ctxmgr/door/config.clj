(ns ctxmgr.door.config
  "Settings from the configuration file, the environment and the command line. Reads files.

  The file is XTDB's own EDN. The door's key is :ctxmgr.door/server; the key of the official
  HTTP module is also accepted, so that existing files keep working."
  (:require [clojure.edn :as edn]
            [clojure.java.io :as io]
            [clojure.walk :as walk]
            [ctxmgr.door.auth :as auth])
  (:import [java.io File]
           [org.rocksdb DBOptions RocksDB]))

(def defaults
  {:host "127.0.0.1"
   :port 3000
   ;; Threads that read requests. Waits and queries do not run on them.
   :threads 32
   :query-threads 16
   :query-queue 256
   ;; Parsing a transaction in EDN takes about ten times its size in memory.
   :max-body-bytes (* 64 1024 1024)
   ;; A result up to this size is sent only when it is complete.
   :hold-back-bytes (* 1024 1024)
   :query-timeout-ms 30000
   :max-wait-ms 60000
   :max-waits 2000
   :idle-timeout-ms 200000
   :read-only? false
   :allow-eval? false
   :token nil
   :jwks nil})

(defn- env-value
  "#env NAME or #env [NAME default]; parsed as a number if the default is a number."
  [form]
  (let [[variable default] (if (vector? form) form [form nil])
        value (System/getenv (str variable))]
    (cond
      (empty? value) default
      (int? default) (parse-long value)
      :else value)))

(defn- read-edn [text]
  (edn/read-string {:readers {'env env-value}} text))

(defn- official
  "Settings of the official module, translated to the door's."
  [{:keys [port read-only? jwks jetty-opts]}]
  (cond-> {}
    port (assoc :port port)
    read-only? (assoc :read-only? true)
    jwks (assoc :jwks jwks)
    (:host jetty-opts) (assoc :host (:host jetty-opts))))

(def ^:private directory-keys #{:db-dir :root-path :path})

(defn- under [data-dir path]
  (if (.isAbsolute (File. ^String path))
    path
    (str (io/file data-dir path))))

(defn- with-data-dir
  "Resolve relative directories of the stores against `data-dir`."
  [config data-dir]
  (walk/postwalk (fn [form]
                   (if (and (map-entry? form) (directory-keys (key form)) (string? (val form)))
                     [(key form) (under data-dir (val form))]
                     form))
                 config))

(defn- with-allow-list [config allow-eval?]
  (if allow-eval?
    (update config :xtdb/query-engine dissoc :fn-allow-list)
    (update config :xtdb/query-engine #(merge {:fn-allow-list []} %))))

(def ^:private max-wal-bytes
  "RocksDB deletes a log file when every column family has flushed what it holds. The index store
  has a dozen that hardly ever fill, so without a bound its logs grow to many times its data."
  (* 16 1024 1024))

(defn- background-jobs
  "As XTDB sets it when it makes the options itself."
  []
  (max 2 (dec (.availableProcessors (Runtime/getRuntime)))))

(defn- db-options ^DBOptions [wal-bytes]
  (RocksDB/loadLibrary)
  (doto (DBOptions.)
    (.setMaxTotalWalSize (long wal-bytes))
    (.setMaxBackgroundJobs (int (background-jobs)))))

(defn- with-bounded-logs
  "Bound the write-ahead log of every store on RocksDB, by its :max-wal-bytes or the default."
  [config]
  (walk/postwalk (fn [form]
                   (if (and (map? form) (= 'xtdb.rocksdb/->kv-store (:xtdb/module form)))
                     (-> (merge {:db-options (db-options (:max-wal-bytes form max-wal-bytes))} form)
                         (dissoc :max-wal-bytes))
                     form))
                 config))

(defn- check [settings]
  (when-let [unknown (seq (remove (set (keys defaults)) (keys settings)))]
    (throw (ex-info (str "unknown setting of :ctxmgr.door/server: " (first unknown)) {:usage true})))
  settings)

(defn- environment []
  (cond-> {}
    (seq (System/getenv "CTXMGR_XTDB_TOKEN")) (assoc :token (System/getenv "CTXMGR_XTDB_TOKEN"))
    (seq (System/getenv "CTXMGR_XTDB_HOST")) (assoc :host (System/getenv "CTXMGR_XTDB_HOST"))
    (seq (System/getenv "CTXMGR_XTDB_PORT")) (assoc :port (parse-long (System/getenv "CTXMGR_XTDB_PORT")))))

(defn read-config
  "{:node …, :server …} from the file, the environment and `overrides`, the last taking precedence."
  [file data-dir overrides]
  (let [config (read-edn (slurp file))
        server (merge defaults
                      (official (:xtdb.http-server/server config))
                      (check (:ctxmgr.door/server config))
                      (environment)
                      (check overrides))]
    {:server (update server :jwks #(some-> % auth/read-jwks))
     :node (-> (dissoc config :ctxmgr.door/server :xtdb.http-server/server)
               (with-data-dir data-dir)
               (with-bounded-logs)
               (with-allow-list (:allow-eval? server)))}))

(def ^:private flags
  {"--host" (fn [args v] (assoc-in args [:overrides :host] v))
   "--port" (fn [args v] (assoc-in args [:overrides :port] (parse-long v)))
   "--data-dir" (fn [args v] (assoc args :data-dir v))
   "--set" (fn [args v] (update args :overrides merge (read-edn v)))})

(defn parse-args
  "{:file :data-dir :overrides} from the command line."
  [args]
  (loop [parsed {:data-dir "."}, [arg value & more :as args] args]
    (cond
      (empty? args) parsed
      (contains? flags arg) (if value
                              (recur ((flags arg) parsed value) more)
                              (throw (ex-info (str arg " needs a value") {:usage true})))
      (:file parsed) (throw (ex-info (str "unknown argument " arg) {:usage true}))
      :else (recur (assoc parsed :file arg) (rest args)))))
