(ns ctxmgr.door.main
  "The main program: starts a node and the HTTP server, and closes both on SIGTERM.

  It prints exactly one line to standard output, `ctxmgr-xtdb ready URL`; everything else goes to
  standard error."
  (:require [ctxmgr.door.linking] ; must be loaded first
            [clojure.java.io :as io]
            [ctxmgr.door.config :as config]
            [ctxmgr.door.http :as http]
            [xtdb.api :as xt]
            ;; Loaded by name when a node starts; required here so that they are compiled ahead of time.
            [xtdb.jdbc]
            [xtdb.jdbc.psql]
            [xtdb.kv.document-store]
            [xtdb.kv.tx-log]
            [xtdb.mem-kv]
            [xtdb.node]
            [xtdb.rocksdb])
  (:import [java.io Closeable])
  (:gen-class))

(defn- complain [^String message]
  (binding [*out* *err*]
    (println (str "ctxmgr-xtdb: " message))))

(defn- root-message [^Throwable e]
  (loop [e e]
    (if-let [cause (ex-cause e)]
      (recur cause)
      (str (.getSimpleName (class e)) ": " (.getMessage e)))))

(defn- url [host port]
  (str "http://" (if (.contains ^String host ":") (str "[" host "]") host) ":" port))

(defn- delete-own-tmp
  "Delete the temporary directory that ./start created for this process."
  []
  (when-let [own-tmp (System/getProperty "ctxmgr.own-tmp")]
    (run! io/delete-file (reverse (file-seq (io/file own-tmp))))))

(defn- close-on-exit [door ^Closeable node]
  (.addShutdownHook (Runtime/getRuntime)
                    (Thread. ^Runnable (fn []
                                         (http/stop door)
                                         (.close node)
                                         (delete-own-tmp)))))

(defn- run [args]
  (let [{:keys [file data-dir overrides]} (config/parse-args args)
        {:keys [node server]} (config/read-config file data-dir overrides)
        ^Closeable node (xt/start-node node)]
    (try
      (let [door (http/start node server)]
        (close-on-exit door node)
        (println (str "ctxmgr-xtdb ready " (url (:host server) (:port door))))
        (flush))
      (catch Throwable e
        (.close node)
        (throw e)))))

(defn -main [& args]
  (try
    (run args)
    @(promise)
    (catch Throwable e
      (complain (if (:usage (ex-data e)) (ex-message e) (root-message e)))
      (System/exit (if (:usage (ex-data e)) 2 1)))))
