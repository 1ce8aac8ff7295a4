(ns ctxmgr.door.formats
  "Format negotiation, and encoding of values as bytes. Pure, except for streams."
  (:require [clojure.string :as str]
            [ctxmgr.door.edn :as edn]
            [ctxmgr.door.json :as json]
            [ctxmgr.door.transit :as transit])
  (:import [java.io ByteArrayInputStream ByteArrayOutputStream InputStreamReader OutputStream
            OutputStreamWriter StringWriter Writer]
           [java.nio.charset Charset StandardCharsets]))

(def content-types
  {:edn "application/edn; charset=utf-8"
   :json "application/json;charset=utf-8"
   :transit "application/transit+json; charset=utf-8"
   :csv "text/csv; charset=utf-8"
   :tsv "text/tsv; charset=utf-8"})

(def ^:private spoken
  {"application/edn" :edn
   "application/json" :json
   "application/transit+json" :transit
   "text/csv" :csv
   "text/tsv" :tsv})

(def ^:private refused
  "Formats of the official server that are not supported here; if only these are accepted: 406."
  #{"text/html" "application/transit+msgpack" "application/sparql-results+xml"})

(defn- quality [parameters]
  (or (some #(some-> (re-matches #"\s*q=([0-9.]+)\s*" %) second parse-double) parameters) 1.0))

(defn- wishes [accept]
  (->> (str/split (str/lower-case accept) #",")
       (map #(let [[media & parameters] (str/split % #";")]
               [(str/trim media) (quality parameters)]))
       (sort-by (comp - second))
       (map first)))

(defn negotiate
  "The format of the reply: one of `offered`, EDN for anything unknown, or nil for a 406."
  [accept offered]
  (if (or (nil? accept) (= accept "application/edn"))
    :edn
    (let [media (wishes accept)]
      (or (some (comp offered spoken) media)
          (when-not (every? refused media) :edn)))))

(defn media-type [content-type]
  (some-> content-type (str/split #";") first str/trim str/lower-case))

(defn- charset [content-type]
  (if-let [[_ charset-name] (some->> content-type (re-find #"(?i)charset=\"?([\w.:-]+)"))]
    (Charset/forName charset-name)
    StandardCharsets/UTF_8))

(defn- cut-short? [^Throwable e]
  (= "EOF while reading" (.getMessage e)))

(defn- read-edn [^bytes body charset]
  (try
    (edn/read-form (InputStreamReader. (ByteArrayInputStream. body) ^Charset charset))
    (catch RuntimeException e
      (when-not (cut-short? e)
        (throw e)))))

(defn- read-json [^bytes body charset]
  (json/read-transaction (InputStreamReader. (ByteArrayInputStream. body) ^Charset charset)))

(defn decode-body
  "The value of `body`, or nil if its type is not one of `accepted`.
  Throws ex-info with the media type as :malformed if it cannot be parsed."
  [^bytes body content-type accepted]
  (let [media (media-type content-type)]
    (try
      (case (get accepted (get spoken media))
        :edn (read-edn body (charset content-type))
        :json (when (pos? (alength body)) (read-json body (charset content-type)))
        :transit (when (pos? (alength body)) (transit/read-form (ByteArrayInputStream. body)))
        nil)
      (catch Throwable e
        (throw (ex-info "malformed body" {:malformed media} e))))))

(defn- utf8-writer ^Writer [^OutputStream out]
  (OutputStreamWriter. out StandardCharsets/UTF_8))

(defn- text-bytes ^bytes [write x]
  (let [w (StringWriter. 512)]
    (write x w)
    (.getBytes (.toString w) StandardCharsets/UTF_8)))

(defn encode
  "The bytes of one value. `envelope?`: outer keys are in camel case in JSON."
  ^bytes [format envelope? x]
  (case format
    :json (text-bytes (if envelope? json/write-envelope json/write) x)
    :transit (let [out (ByteArrayOutputStream. 512)]
               (transit/write x out)
               (.toByteArray out))
    (.getBytes (edn/write-text x) StandardCharsets/UTF_8)))

(defn- write-each [w open separator close write rows]
  (.write ^Writer w ^String open)
  (reduce (fn [^String sep row]
            (.write ^Writer w sep)
            (write row w)
            separator)
          "" rows)
  (.write ^Writer w ^String close)
  (.flush ^Writer w))

(defn- write-edn [x ^Writer w]
  (.write w (edn/write-text x)))

(defn- cell [separator x]
  (let [text (if (string? x) x (edn/write-text x))]
    (if (re-find (if (= separator "\t") #"[\t\"\r\n]" #"[,\"\r\n]") text)
      (str \" (str/replace text "\"" "\"\"") \")
      text)))

(defn- write-table [^Writer w separator header rows]
  (doseq [row (cons header rows)]
    (.write w ^String (str/join separator (map #(cell separator %) row)))
    (.write w "\n"))
  (.flush w))

(defn write-rows
  "Write the lazy sequence `rows` as one list. CSV and TSV begin with `header`."
  [format envelope? header rows ^OutputStream out]
  (let [w (utf8-writer out)]
    (case format
      :json (write-each w "[" "," "]" (if envelope? json/write-envelope json/write) rows)
      :transit (transit/write (apply list rows) out)
      :csv (write-table w "," header rows)
      :tsv (write-table w "\t" header rows)
      (write-each w "(" " " ")" write-edn rows))))
