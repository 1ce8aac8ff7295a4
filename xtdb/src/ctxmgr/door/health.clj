(ns ctxmgr.door.health
  "A health check for environments without curl: queries a running server, exits 0 or 1."
  (:import [java.net HttpURLConnection URL])
  (:gen-class))

(def ^:private timeout-ms 3000)

(defn- status [url]
  (let [connection ^HttpURLConnection (.openConnection (URL. (str url "/healthz")))]
    (.setConnectTimeout connection timeout-ms)
    (.setReadTimeout connection timeout-ms)
    (.getResponseCode connection)))

(defn -main [url]
  (let [found (try (status url) (catch java.io.IOException e (.getMessage e)))]
    (when-not (= 200 found)
      (binding [*out* *err*]
        (println (str "ctxmgr-xtdb: " url " is not healthy: " found))))
    (System/exit (if (= 200 found) 0 1))))
