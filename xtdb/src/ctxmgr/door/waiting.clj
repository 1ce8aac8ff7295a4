(ns ctxmgr.door.waiting
  "Waits for transactions to be indexed. Owns the set of pending waits; a wait occupies no thread.

  One listener is called for every indexed transaction and completes the waits it satisfies. The
  engine's own await is not used: it blocks its caller, and leaks a listener on a timeout."
  (:require [ctxmgr.door.snapshots :as snapshots]
            [xtdb.api :as xt]
            [xtdb.bus :as bus]
            [xtdb.db :as db]
            [xtdb.tx :as tx])
  (:import [java.io Closeable]
           [java.util Set]
           [java.util.concurrent CompletableFuture ConcurrentHashMap TimeUnit]
           [java.util.function BiConsumer]))

(defrecord Wait [tx-key tx-value ^CompletableFuture future])

(defn- reached? [{:keys [tx-key tx-value]} tx]
  (and tx (not (neg? (compare (get tx tx-key) tx-value)))))

(defn- ingester-failure [cause]
  (Exception. "Transaction ingester aborted." cause))

(defn- on-event [^Set waits {::xt/keys [event-type] :keys [submitted-tx ingester-error]}]
  (doseq [{:keys [^CompletableFuture future] :as wait} waits]
    (case event-type
      ::tx/indexed-tx (when (reached? wait submitted-tx) (.complete future submitted-tx))
      ::tx/ingester-error (.completeExceptionally future (ingester-failure ingester-error)))))

(defn- check-now [{:keys [tx-ingester]} {:keys [^CompletableFuture future] :as wait}]
  (let [latest (db/latest-completed-tx tx-ingester)]
    (if (reached? wait latest)
      (.complete future latest)
      (when-let [error (db/ingester-error tx-ingester)]
        (.completeExceptionally future (ingester-failure error))))))

(defn open
  "The pending waits of `node`: at most `max-waits` at a time, none longer than `max-wait-ms`."
  [node snapshots {:keys [max-waits max-wait-ms]}]
  (let [waits (ConcurrentHashMap/newKeySet)]
    {:node node
     :snapshots snapshots
     :waits waits
     :max-waits max-waits
     :max-wait-ms max-wait-ms
     :listener (bus/listen (:bus node)
                           {::xt/event-types #{::tx/indexed-tx ::tx/ingester-error}}
                           (partial on-event waits))}))

(defn close [{:keys [^Closeable listener ^Set waits]}]
  (.close listener)
  (doseq [{:keys [^CompletableFuture future]} waits]
    (.completeExceptionally future (InterruptedException. "Node closed."))))

(defn full? [{:keys [^Set waits max-waits]}]
  (<= max-waits (.size waits)))

(defn reached
  "The latest completed transaction if it already satisfies the wait, else nil."
  [{:keys [snapshots]} [tx-key tx-value]]
  (let [latest (snapshots/latest-completed-tx snapshots)]
    (when (reached? {:tx-key tx-key, :tx-value tx-value} latest)
      latest)))

(defn await-tx
  "A future of the latest completed transaction, once its `tx-key` has reached `tx-value`.
  It fails with TimeoutException after `timeout-ms`, and after max-wait-ms in any case."
  ^CompletableFuture [{:keys [node ^Set waits max-wait-ms]} [tx-key tx-value] timeout-ms]
  (let [future (CompletableFuture.)
        wait (->Wait tx-key tx-value future)]
    (check-now node wait)
    (when-not (.isDone future)
      (.add waits wait)
      (check-now node wait)
      (.orTimeout future (max 0 (min (or timeout-ms max-wait-ms) max-wait-ms)) TimeUnit/MILLISECONDS)
      (.whenComplete future (reify BiConsumer
                              (accept [_ _ _] (.remove waits wait)))))
    future))
