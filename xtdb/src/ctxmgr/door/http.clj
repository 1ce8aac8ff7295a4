(ns ctxmgr.door.http
  "The HTTP server: Jetty in front of the router. Owns sockets and the threads that read requests.

  A reply of bytes is written on the thread that read the request. A wait or a stream of rows
  releases that thread immediately and finishes on another."
  (:require [clojure.string :as str]
            [ctxmgr.door.formats :as formats]
            [ctxmgr.door.replies :as replies]
            [ctxmgr.door.router :as router]
            [ctxmgr.door.snapshots :as snapshots]
            [ctxmgr.door.waiting :as waiting]
            [ctxmgr.door.work :as work])
  (:import [clojure.lang IKVReduce]
           [java.io InputStream IOException OutputStream]
           [java.util.concurrent CompletableFuture CompletionException Executor]
           [java.util.function BiConsumer]
           [javax.servlet AsyncContext]
           [javax.servlet.http HttpServletRequest HttpServletResponse]
           [org.eclipse.jetty.server ConnectionFactory Handler HttpConfiguration HttpConnectionFactory Request Response Server
            ServerConnector]
           [org.eclipse.jetty.server.handler AbstractHandler]
           [org.eclipse.jetty.util.thread QueuedThreadPool]))

(def ^:private methods-by-name
  {"GET" :get, "POST" :post, "PUT" :put, "DELETE" :delete, "HEAD" :head, "OPTIONS" :options, "PATCH" :patch})

(defn- bounded-body
  "The bytes of the body, or :too-long."
  [^HttpServletRequest servlet-request max-bytes]
  (if (< max-bytes (.getContentLengthLong servlet-request))
    :too-long
    (let [body (.readNBytes ^InputStream (.getInputStream servlet-request) (int (inc max-bytes)))]
      (if (< max-bytes (alength body))
        :too-long
        body))))

(defn- request-of [{:keys [node snapshots settings]} ^HttpServletRequest servlet-request]
  (router/->Request (methods-by-name (.getMethod servlet-request))
                    (.getRequestURI servlet-request)
                    (.getQueryString servlet-request)
                    #(.getHeader servlet-request %)
                    #(bounded-body servlet-request (:max-body-bytes settings))
                    node
                    snapshots
                    settings
                    (:query-timeout-ms settings)
                    nil nil nil nil))

(defn- send-head
  "Bypasses the servlet API for headers, which would parse each content type again."
  [^Response response {:keys [status headers]}]
  (.setStatus response status)
  (when headers
    (let [fields (.getHttpFields response)]
      (.kvreduce ^IKVReduce headers (fn [_ ^String k ^String v] (.put fields k v)) nil))))

(defn- send-bytes [^HttpServletResponse response {:keys [^bytes body] :as reply}]
  (send-head response reply)
  (.setContentLength response (if body (alength body) 0))
  (when body
    (.write (.getOutputStream response) body)))

(defn- quietly
  "Run `f`, ignoring the errors of a disconnected peer."
  [f]
  (try (f) (catch IOException _) (catch IllegalStateException _)))

(defn- complete [^AsyncContext async]
  (quietly #(.complete async)))

(defn- answer-later [^AsyncContext async reply]
  (quietly #(send-bytes (.getResponse async) reply))
  (complete async))

(defn- break-off
  "Close the connection without the last chunk, so that no client mistakes the reply for complete."
  [^Request jetty-request ^AsyncContext async e]
  (.abort (.getHttpChannel jetty-request) e)
  (complete async))

(defn- row-writer [{:keys [request open rows header envelope?]}]
  (fn [^OutputStream out]
    (with-open [cursor ^java.io.Closeable (open)]
      (formats/write-rows (:format request) (or envelope? (:envelope? request)) header
                          ((or rows identity) (iterator-seq cursor))
                          out))))

(defn- stream-rows [{:keys [work]} ^Request jetty-request ^AsyncContext async {:keys [request] :as reply}]
  (let [response ^HttpServletResponse (.getResponse async)
        head (update reply :headers assoc "Content-Type" (formats/content-types (:format request)))
        ends {:whole #(answer-later async (assoc head :body %))
              :fail #(answer-later async (replies/failure request %))
              :begin (fn []
                       (send-head response head)
                       (.getOutputStream response))
              :finish #(complete async)
              :break #(break-off jetty-request async %)}]
    (when-not (work/run work (:timeout-ms reply) (row-writer reply) ends)
      (answer-later async (replies/text 503 "too many queries are waiting\n")))))

(declare dispatch)

(defn- wait-for [{:keys [waiting ^Executor threads] :as door} jetty-request async {:keys [wait timeout-ms then request]}]
  (let [future (waiting/await-tx waiting wait timeout-ms)]
    (.whenCompleteAsync
     ^CompletableFuture future
     (reify BiConsumer
       (accept [_ tx e]
         (let [e (if (instance? CompletionException e) (ex-cause e) e)
               reply (try
                       (if e
                         (replies/failure request e)
                         (assoc (then tx) :request request))
                       (catch Throwable e
                         (replies/failure request e)))]
           (dispatch door jetty-request async reply))))
     threads)))

(defn- dispatch
  "Finish an asynchronous request."
  [door jetty-request async {:keys [wait open] :as reply}]
  (cond
    wait (wait-for door jetty-request async reply)
    open (stream-rows door jetty-request async reply)
    :else (answer-later async reply)))

(defn- already-there
  "Replace a wait whose transaction is already indexed by the reply that follows it."
  [{:keys [waiting] :as door} {:keys [wait then request] :as reply}]
  (if-not wait
    reply
    (try
      (let [tx (waiting/reached waiting wait)]
        (cond
          tx (already-there door (assoc (then tx) :request request))
          (waiting/full? waiting) (replies/text 503 "too many requests are waiting\n")
          :else reply))
      (catch Throwable e
        (replies/failure request e)))))

(defn- handle [door ^Request jetty-request ^HttpServletRequest servlet-request ^HttpServletResponse response]
  (.setHandled jetty-request true)
  (let [{:keys [wait open] :as reply} (already-there door (router/route (request-of door servlet-request)))]
    (if (or wait open)
      (let [async (doto (.startAsync servlet-request) (.setTimeout 0))]
        (dispatch door jetty-request async reply))
      (send-bytes response reply))))

(defn- handler ^Handler [door]
  (proxy [AbstractHandler] []
    (handle [_target jetty-request servlet-request response]
      (handle door jetty-request servlet-request response))))

(defn- connector [^Server server {:keys [host port idle-timeout-ms]}]
  (let [http (doto (HttpConfiguration.)
               (.setSendServerVersion false)
               (.setSendDateHeader true)
               ;; Refuse unauthenticated requests after the headers, before any content arrives.
               (.setDelayDispatchUntilContent false)
               (.setRequestHeaderSize 8192))]
    (doto (ServerConnector. server (int 1) (int 1)
                            ^"[Lorg.eclipse.jetty.server.ConnectionFactory;"
                            (into-array ConnectionFactory [(HttpConnectionFactory. http)]))
      (.setHost host)
      (.setPort port)
      (.setIdleTimeout idle-timeout-ms))))

(defn start
  "Serve `node`; returns a map for `stop`, with the bound port as :port."
  [node {:keys [threads] :as settings}]
  (let [pool (doto (QueuedThreadPool. (int threads)) (.setName "door-http") (.setDaemon true))
        server (doto (Server. pool) (.setStopTimeout 2000))
        snapshots (snapshots/open node)
        door {:node node
              :snapshots snapshots
              :settings settings
              :threads pool
              :waiting (waiting/open node snapshots settings)
              :work (work/open settings)
              :server server}
        connector (connector server settings)]
    (.addConnector server connector)
    (.setHandler server (handler door))
    (.start server)
    (assoc door :port (.getLocalPort ^ServerConnector connector))))

(defn stop [{:keys [^Server server waiting work snapshots]}]
  (waiting/close waiting)
  (.stop server)
  (work/close work)
  (snapshots/close snapshots))
