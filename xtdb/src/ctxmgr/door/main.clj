(ns ctxmgr.door.main
  "The program: start a node, open the door, say so, and close both on SIGTERM.

  Standard output has exactly one line, `ctxmgr-xtdb ready URL`; everything else goes to
  standard error."
  (:require [ctxmgr.door.linking] ; before the rest
            [clojure.java.io :as io]
            [ctxmgr.door.config :as config]
            [ctxmgr.door.http :as http]
            [xtdb.api :as xt]
            ;; Loaded by name when a node starts; named here to be compiled ahead with the rest.
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
  "The directory ./start made for this process alone."
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
