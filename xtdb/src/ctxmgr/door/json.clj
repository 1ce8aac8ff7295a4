(ns ctxmgr.door.json
  "Reads documents and transactions from JSON and writes replies. Pure, except for the Writer.

  The API's JSON is lossy by design: keywords and symbols become strings, sets become arrays,
  and instants lose their milliseconds. Clients that need exact values request EDN."
  (:require [clojure.data.json :as data-json]
            [clojure.string :as str]
            [ctxmgr.door.edn :as edn])
  (:import [clojure.lang BigInt PersistentHashMap Ratio]
           [java.io Reader Writer]
           [java.time Duration Instant]
           [java.time.temporal ChronoUnit]
           [java.util Base64 Date]
           [xtdb.query_state QueryState]))

(defn camel
  "A keyword as spelled in the envelope of a reply: without namespace, in camel case."
  [k]
  (let [[head & tail] (str/split (name k) #"-")]
    (apply str head (map str/capitalize tail))))

(defn- key-text [k]
  (cond
    (nil? k) (throw (IllegalArgumentException. "JSON has no form for a nil key"))
    (ident? k) (subs (str (keyword k)) 1)
    (string? k) k
    :else (str k)))

(declare write)

(defn- write-object [m key-fn ^Writer w]
  (.write w "{")
  (reduce (fn [^String separator [k v]]
            (.write w separator)
            (data-json/write (key-fn k) w)
            (.write w ":")
            (write (cond-> v (and (= k :xt/fn) (seq? v)) edn/write-text) w)
            ",")
          "" m)
  (.write w "}"))

(defn- write-array [xs ^Writer w]
  (.write w "[")
  (reduce (fn [^String separator x]
            (.write w separator)
            (write x w)
            ",")
          "" xs)
  (.write w "]"))

(defn- write-double [^double x ^Writer w]
  (if (or (Double/isNaN x) (Double/isInfinite x))
    (.write w (str \" x \"))
    (.write w (Double/toString x))))

(defn- seconds-only [^Date d]
  (str (.truncatedTo (Instant/ofEpochMilli (.getTime d)) ChronoUnit/SECONDS)))

(defn- duration-seconds [^Duration d]
  (.toPlainString (.add (bigdec (.getSeconds d)) (BigDecimal/valueOf (long (.getNano d)) 9))))

(defn- write-text [x ^Writer w]
  (data-json/write x w :escape-slash false :escape-js-separators false))

(defn write [x ^Writer w]
  (cond
    (nil? x) (.write w "null")
    (string? x) (write-text x w)
    (ident? x) (write-text (key-text x) w)
    (or (instance? Double x) (instance? Float x)) (write-double (double x) w)
    (instance? Ratio x) (write-double (double x) w)
    (or (number? x) (boolean? x)) (.write w (str x))
    (instance? Date x) (write-text (seconds-only x) w)
    (instance? QueryState x) (write-object (-> (into {} x) (update :query edn/write-text)) camel w)
    (map? x) (write-object x key-text w)
    (or (coll? x) (instance? java.util.List x)) (write-array x w)
    (bytes? x) (write-text (.encodeToString (Base64/getEncoder) x) w)
    (instance? Duration x) (.write w ^String (duration-seconds x))
    :else (write-text (str x) w)))

(defn write-envelope
  "Like write, but the keys of `x` itself, or of the maps in it, are in camel case."
  [x ^Writer w]
  (cond
    (instance? QueryState x) (write x w)
    (map? x) (write-object x camel w)
    (sequential? x) (do (.write w "[")
                        (reduce (fn [^String separator item]
                                  (.write w separator)
                                  (write-envelope item w)
                                  ",")
                                "" x)
                        (.write w "]"))
    :else (write x w)))

(defn- short-op [[op & args]]
  (into [(name op)] args))

(defn tx-log-entry
  "An entry of the transaction log, with operations under their JSON names."
  [entry]
  (cond-> entry
    (:xtdb.api/tx-ops entry) (update :xtdb.api/tx-ops #(mapv short-op %))
    (:xtdb.api/tx-events entry) (update :xtdb.api/tx-events #(mapv short-op %))))

(defn- read-doc [doc]
  (cond-> doc
    (string? (:xt/fn doc)) (update :xt/fn edn/read-text)))

(defn- read-op [[op & args]]
  (let [dates #(map (fn [text] (some-> text edn/read-date)) %)
        [a b] args]
    (case op
      "put" (into [:xtdb.api/put (read-doc a)] (dates (rest args)))
      "delete" (into [:xtdb.api/delete a] (dates (rest args)))
      "evict" [:xtdb.api/evict a]
      "match" (into [:xtdb.api/match a b] (dates (drop 2 args)))
      "fn" (into [:xtdb.api/fn] args)
      (throw (IllegalArgumentException. (str "unknown operation " op))))))

(defn- as-official
  "Convert numbers and maps to the classes that the official server creates from JSON. The hash of
  a document depends on them: a small number is an Integer there and does not match EDN's Long."
  [x]
  (cond
    (and (instance? Long x) (<= Integer/MIN_VALUE x Integer/MAX_VALUE)) (Integer/valueOf (int x))
    (instance? BigInt x) (biginteger x)
    (map? x) (into PersistentHashMap/EMPTY (map (fn [[k v]] [k (as-official v)])) x)
    (vector? x) (mapv as-official x)
    :else x))

(defn read-transaction
  "The body of a transaction in JSON; throws if it is invalid."
  [^Reader in]
  (let [body (as-official (data-json/read in :key-fn keyword :eof-error? true))]
    (cond-> body
      (vector? (:tx-ops body)) (update :tx-ops #(mapv read-op %)))))
