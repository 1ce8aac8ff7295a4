(ns ctxmgr.door.snapshots
  "Index snapshots that readers use one after the other. Owns those that wait for the next reader.

  Opening a snapshot with its iterators costs several times what a lookup in it does. So a reader
  puts its snapshot back, and the next takes it if the index has not been written to since. The
  store's own count of writes tells, so that no reader ever misses a write that was finished before
  it came. Only RocksDB counts them; on any other store every reader opens a snapshot of its own.

  A snapshot keeps files on disk that compaction would remove: stale ones are closed when a
  transaction has been indexed, even if nobody reads."
  (:require [xtdb.api :as xt]
            [xtdb.bus :as bus]
            [xtdb.db :as db]
            [xtdb.tx :as tx])
  (:import [clojure.lang Delay]
           [java.io Closeable]
           [java.util.concurrent.atomic AtomicBoolean AtomicReferenceArray]
           [org.rocksdb RocksDB]))

(def ^:private max-idle
  "More than this many readers at once open snapshots of their own."
  16)

(deftype ^:private Kept [^Closeable snapshot ^long writes ^Delay latest-tx])

(defn- rocks ^RocksDB [index-store]
  (let [engine (:db (:kv-store index-store))]
    (when (instance? RocksDB engine)
      engine)))

(defn- take-idle ^Kept [^AtomicReferenceArray idle]
  (loop [i 0]
    (when (< i (.length idle))
      (or (when (.get idle i)
            (.getAndSet idle i nil))
          (recur (inc i))))))

(defn- put-idle [^AtomicReferenceArray idle ^Kept kept]
  (loop [i 0]
    (when (< i (.length idle))
      (or (.compareAndSet idle i nil kept)
          (recur (inc i))))))

(defn- close-kept [^Kept kept]
  (.close ^Closeable (.-snapshot kept)))

(defn- close-idle [{:keys [^AtomicReferenceArray idle]} stale?]
  (dotimes [i (.length idle)]
    (when-let [^Kept kept (.getAndSet idle i nil)]
      (when-not (and (not (stale? kept))
                     (.compareAndSet idle i nil kept))
        (close-kept kept)))))

(defn- sweep [{:keys [^RocksDB engine] :as snapshots}]
  (let [writes (.getLatestSequenceNumber engine)]
    (close-idle snapshots (fn [^Kept kept] (not= writes (.-writes kept))))))

(defn open
  "The snapshots of `node`."
  [{:keys [index-store bus]}]
  (let [engine (rocks index-store)
        snapshots {:index-store index-store
                   :engine engine
                   :idle (AtomicReferenceArray. (int max-idle))
                   :closed (AtomicBoolean.)}]
    (assoc snapshots :listener (when engine
                                 (bus/listen bus {::xt/event-types #{::tx/indexed-tx}}
                                             (fn [_] (sweep snapshots)))))))

(defn close
  "Close what waits; what is in use is closed by its reader."
  [{:keys [^Closeable listener ^AtomicBoolean closed] :as snapshots}]
  (when listener
    (.close listener))
  (.set closed true)
  (close-idle snapshots (constantly true)))

(defn- open-one ^Kept [{:keys [index-store]} writes]
  (let [snapshot (db/open-index-snapshot index-store)]
    (Kept. snapshot writes (delay (db/resolve-tx snapshot nil)))))

(defn- current
  "One that holds every write finished before now."
  ^Kept [{:keys [^RocksDB engine idle] :as snapshots}]
  (let [writes (.getLatestSequenceNumber engine)]
    (loop []
      (if-let [kept (take-idle idle)]
        (if (= writes (.-writes ^Kept kept))
          kept
          (do (close-kept kept)
              (recur)))
        (open-one snapshots writes)))))

(defn- put-back [{:keys [idle ^AtomicBoolean closed] :as snapshots} kept]
  (if (put-idle idle kept)
    (when (.get closed)
      (close-idle snapshots (constantly true)))
    (close-kept kept)))

(defn- with-kept [snapshots f]
  (let [^Kept kept (current snapshots)
        result (try
                 (f kept)
                 (catch Throwable e
                   (close-kept kept)
                   (throw e)))]
    (put-back snapshots kept)
    result))

(defn with-snapshot
  "Call `f` with an index snapshot; what it returns must not refer to it."
  [{:keys [engine index-store] :as snapshots} f]
  (if engine
    (with-kept snapshots (fn [^Kept kept] (f (.-snapshot kept))))
    (with-open [snapshot ^Closeable (db/open-index-snapshot index-store)]
      (f snapshot))))

(defn latest-completed-tx
  "The newest transaction in the index, nil when there is none."
  [{:keys [engine index-store] :as snapshots}]
  (if engine
    (with-kept snapshots (fn [^Kept kept] @(.-latest-tx kept)))
    (db/latest-completed-tx index-store)))
