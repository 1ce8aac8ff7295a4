(ns ctxmgr.door.snapshots
  "A pool of index snapshots, reused by successive readers. Owns the idle ones.

  Opening a snapshot with its iterators costs several times as much as a lookup in it. A reader
  therefore returns its snapshot, and the next reader reuses it if the index has not been written
  to since. This is decided by the store's own write counter, so no reader misses a write that was
  finished before the reader started. Only RocksDB has such a counter; on any other store every
  reader opens a new snapshot.

  A snapshot keeps files on disk that compaction would remove, so stale snapshots are closed when a
  transaction has been indexed, even if there are no readers."
  (:require [xtdb.api :as xt]
            [xtdb.bus :as bus]
            [xtdb.db :as db]
            [xtdb.tx :as tx])
  (:import [clojure.lang Delay]
           [java.io Closeable]
           [java.util.concurrent.atomic AtomicBoolean AtomicReferenceArray]
           [org.rocksdb RocksDB]))

(def ^:private max-idle
  "The maximum number of idle snapshots; more are closed instead of being kept."
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
  "Close idle snapshots; those in use are closed by their readers."
  [{:keys [^Closeable listener ^AtomicBoolean closed] :as snapshots}]
  (when listener
    (.close listener))
  (.set closed true)
  (close-idle snapshots (constantly true)))

(defn- open-one ^Kept [{:keys [index-store]} writes]
  (let [snapshot (db/open-index-snapshot index-store)]
    (Kept. snapshot writes (delay (db/resolve-tx snapshot nil)))))

(defn- current
  "A snapshot that contains every write finished before now."
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
  "Call `f` with an index snapshot; the result must not refer to the snapshot."
  [{:keys [engine index-store] :as snapshots} f]
  (if engine
    (with-kept snapshots (fn [^Kept kept] (f (.-snapshot kept))))
    (with-open [snapshot ^Closeable (db/open-index-snapshot index-store)]
      (f snapshot))))

(defn latest-completed-tx
  "The newest transaction in the index, or nil."
  [{:keys [engine index-store] :as snapshots}]
  (if engine
    (with-kept snapshots (fn [^Kept kept] @(.-latest-tx kept)))
    (db/latest-completed-tx index-store)))
