(ns ctxmgr.door.work
  "Rows sent as they come, under a time limit. Owns the threads that run queries.

    :held       rows are gathered in memory, nothing is sent; a failure is still an error status
    :sending    more than :hold-back-bytes came; the status is sent, a failure breaks the transfer
    :ended      the reply is complete, or someone else has taken it over

  Whoever moves the state owns the response: the worker, or the clock when time is up."
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
  "Gathers up to `limit` bytes; then moves the state to :sending and passes everything on."
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
  "Run `write-rows` on this thread; end the reply whole, as an error, or broken."
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
  "A pair: a task that notes the thread it runs on, and a function that interrupts it there."
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
  "Have `write-rows`, a function of an OutputStream, run within `timeout-ms`.

  `ends` says how the reply can end: (whole bytes), (fail e), or (begin) giving a stream, and
  then (finish) or (break e). Returns false when too many queries are waiting for a thread."
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
