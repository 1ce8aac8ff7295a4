(ns ctxmgr.door.work
  "Streams rows under a time limit. Owns the threads that run queries.

    :held       rows are buffered in memory, nothing is sent; a failure can still be an error status
    :sending    :hold-back-bytes exceeded; the status is sent, a failure breaks the connection
    :ended      the reply is complete, or the other party has taken it over

  The party that changes the state owns the response: the worker, or the clock at the timeout."
  (:require [clojure.tools.logging :as log])
  (:import [java.io ByteArrayOutputStream IOException OutputStream]
           [java.util.concurrent ArrayBlockingQueue ExecutorService Executors Future
            RejectedExecutionException ScheduledExecutorService ScheduledThreadPoolExecutor ThreadFactory
            ThreadPoolExecutor TimeUnit TimeoutException]
           [java.util.concurrent.atomic AtomicInteger AtomicReference]))

(defn- threads ^ThreadFactory [prefix]
  (let [n (AtomicInteger.)]
    (reify ThreadFactory
      (newThread [_ task]
        (doto (Thread. ^Runnable task (str prefix "-" (.incrementAndGet n)))
          (.setDaemon true))))))

(defn- clock ^ScheduledExecutorService []
  (doto (ScheduledThreadPoolExecutor. 1 (threads "door-clock"))
    (.setRemoveOnCancelPolicy true)))

(defn open [{:keys [query-threads query-queue hold-back-bytes]}]
  {:pool (doto (ThreadPoolExecutor. (int query-threads) (int query-threads) 30 TimeUnit/SECONDS
                                    (ArrayBlockingQueue. (int query-queue)) (threads "door-query"))
           (.allowCoreThreadTimeOut true))
   :clock (clock)
   :hold-back-bytes hold-back-bytes})

(defn close [{:keys [^ExecutorService pool ^ExecutorService clock]}]
  (.shutdownNow clock)
  (.shutdownNow pool)
  (.awaitTermination pool 2 TimeUnit/SECONDS))

(defn- take-over! [^AtomicReference state from to]
  (when-not (.compareAndSet state from to)
    (throw (InterruptedException. "the reply was taken over"))))

(defn- holding-stream
  "Buffer up to `limit` bytes; then change the state to :sending and pass everything on."
  ^OutputStream [^AtomicReference state limit ^ByteArrayOutputStream held begin]
  (let [out (volatile! nil)]
    (proxy [OutputStream] []
      (write
        ([b] (.write ^OutputStream this (byte-array [(unchecked-byte b)]) 0 1))
        ([bytes from n]
         (when (Thread/interrupted)
           (throw (InterruptedException.)))
         (if-let [^OutputStream sending @out]
           (.write sending ^bytes bytes (int from) (int n))
           (do (.write held ^bytes bytes (int from) (int n))
               (when (< limit (.size held))
                 (take-over! state :held :sending)
                 (let [^OutputStream sending (begin)]
                   (.writeTo held sending)
                   (.reset held)
                   (vreset! out sending)))))))
      (flush []))))

(defn- produce
  "Run `write-rows` on this thread; end the reply complete, as an error, or broken."
  [{:keys [hold-back-bytes]} ^AtomicReference state write-rows {:keys [begin whole fail break finish]}]
  (let [held (ByteArrayOutputStream. 1024)]
    (try
      (write-rows (holding-stream state hold-back-bytes held begin))
      (if (.compareAndSet state :held :ended)
        (whole (.toByteArray held))
        (do (take-over! state :sending :ended)
            (finish)))
      (catch Throwable e
        (cond
          (.compareAndSet state :held :ended) (fail e)
          (.compareAndSet state :sending :ended) (do (log/warn e "a reply failed after its beginning was sent")
                                                     (break e)))))))

(defn- time-up [^AtomicReference state {:keys [fail break]}]
  (let [e (TimeoutException. "Query timed out.")]
    (cond
      (.compareAndSet state :held :ended) (fail e)
      (.compareAndSet state :sending :ended) (break e))))

(defn- interruptible
  "A pair: a task that records its thread, and a function that interrupts the task on that thread."
  [task]
  (let [lock (Object.)
        runner (volatile! nil)]
    [(fn []
       (locking lock (vreset! runner (Thread/currentThread)))
       (try
         (task)
         (finally
           (locking lock
             (vreset! runner nil)
             (Thread/interrupted)))))
     (fn []
       (locking lock
         (when-let [^Thread thread @runner]
           (.interrupt thread))))]))

(defn run
  "Run `write-rows`, a function of an OutputStream, within `timeout-ms`.

  `ends` holds the ways a reply can end: (whole bytes), (fail e), or (begin), which returns a
  stream, and then (finish) or (break e). Returns false if too many queries wait for a thread."
  [{:keys [^ThreadPoolExecutor pool ^ScheduledExecutorService clock] :as work} timeout-ms write-rows ends]
  (let [state (AtomicReference. :held)
        [task interrupt] (interruptible #(produce work state write-rows ends))
        alarm (.schedule clock ^Runnable (fn []
                                           (time-up state ends)
                                           (interrupt))
                         (long timeout-ms) TimeUnit/MILLISECONDS)]
    (try
      (.execute pool (fn []
                       (when (= :held (.get state))
                         (task))
                       (.cancel ^Future alarm false)))
      true
      (catch RejectedExecutionException _
        (.cancel ^Future alarm false)
        false))))
