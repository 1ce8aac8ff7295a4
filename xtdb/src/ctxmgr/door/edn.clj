(ns ctxmgr.door.edn
  "Reads EDN from requests and writes it to replies. Pure, except for its arguments.

  The output is that of `pr`. Common types are written directly, because the multimethod behind
  `pr` costs more than fetching the document; all other types use the multimethod. The output
  goes to a StringBuilder, because Java's Writers take a lock for each write."
  (:require [clojure.edn :as edn]
            [clojure.instant :as instant]
            [xtdb.codec :as codec])
  (:import [clojure.lang IPersistentMap IPersistentSet IPersistentVector IRecord ISeq Keyword Symbol]
           [java.io PushbackReader Reader StringReader StringWriter]
           [java.time LocalDateTime ZoneOffset]
           [java.util Date Iterator Map$Entry UUID]))

(def readers
  "The tags allowed in requests, in addition to #inst and #uuid."
  {'crux/id codec/id-edn-reader
   'xtdb/id codec/id-edn-reader
   'crux/base64 codec/base64-reader
   'xtdb/base64 codec/base64-reader
   'xtdb/duration codec/duration-reader
   'xtdb/instant codec/instant-reader
   'xtdb/zdt codec/zdt-reader
   'xtdb/local-date codec/local-date-reader
   'xtdb/local-time codec/local-time-reader
   'xtdb/local-date-time codec/local-date-time-reader})

(defn read-form
  "The first form of `in`, or nil; the rest is not read."
  [^Reader in]
  (edn/read {:readers readers, :eof nil} (PushbackReader. in 16)))

(defn read-text
  "The first form of `text`; throws if it is empty or truncated."
  [^String text]
  (edn/read {:readers readers} (PushbackReader. (StringReader. text) 16)))

(defn read-date
  "A partial RFC 3339 instant; UTC if it has no offset."
  ^Date [text]
  (instant/read-instant-date text))

(declare write)

(defn- escape ^String [^long c]
  (case c
    34 "\\\"", 92 "\\\\", 10 "\\n", 9 "\\t", 13 "\\r", 12 "\\f", 8 "\\b"
    nil))

(defn- special? [^long c]
  (or (< c 14) (= c 34) (= c 92)))

(defn- write-escaped [^String s ^StringBuilder w]
  (let [n (.length s)]
    (loop [from 0, i 0]
      (if (= i n)
        (.append w s from i)
        (let [c (long (int (.charAt s i)))
              escaped (when (special? c) (escape c))]
          (if escaped
            (do (.append w s from i)
                (.append w ^String escaped)
                (recur (inc i) (inc i)))
            (recur from (inc i))))))))

(defn- plain? [^String s]
  (let [n (.length s)]
    (loop [i 0]
      (or (= i n)
          (if (special? (long (int (.charAt s i))))
            false
            (recur (unchecked-inc i)))))))

(defn- write-string
  "Strings without special characters, the common case, are appended in one call."
  [^String s ^StringBuilder w]
  (.append w "\"")
  (if (plain? s)
    (.append w s)
    (write-escaped s w))
  (.append w "\""))

(defn- write-other [x ^StringBuilder w]
  (let [text (StringWriter.)]
    (print-method x text)
    (.append w (.toString text))))

(defn- write-double [^Double x ^StringBuilder w]
  (if (Double/isFinite x)
    (.append w (.toString x))
    (write-other x w)))

(defn- write-items [^Iterator items ^StringBuilder w]
  (when (.hasNext items)
    (write (.next items) w)
    (while (.hasNext items)
      (.append w " ")
      (write (.next items) w))))

(defn- write-map [^Iterable m ^StringBuilder w]
  (.append w "{")
  (let [entries (.iterator m)]
    (loop [separator ""]
      (when (.hasNext entries)
        (let [^Map$Entry entry (.next entries)]
          (.append w ^String separator)
          (write (.getKey entry) w)
          (.append w " ")
          (write (.getValue entry) w)
          (recur ", ")))))
  (.append w "}"))

(defn- pad [^StringBuilder w n width]
  (let [digits (Long/toString n)]
    (dotimes [_ (- width (.length digits))]
      (.append w "0"))
    (.append w digits)))

;; Outside these bounds `pr` uses another calendar (before 1582) or more digits (after 9999).
(def ^:private ^long first-plain-ms -11644473600000)
(def ^:private ^long last-plain-ms 253402300799999)

(defn- write-date [^Date d ^StringBuilder w]
  (let [ms (.getTime d)]
    (if (<= first-plain-ms ms last-plain-ms)
      (let [t (LocalDateTime/ofEpochSecond (Math/floorDiv ms 1000) 0 ZoneOffset/UTC)]
        (.append w "#inst \"")
        (pad w (.getYear t) 4) (.append w "-")
        (pad w (.getMonthValue t) 2) (.append w "-")
        (pad w (.getDayOfMonth t) 2) (.append w "T")
        (pad w (.getHour t) 2) (.append w ":")
        (pad w (.getMinute t) 2) (.append w ":")
        (pad w (.getSecond t) 2) (.append w ".")
        (pad w (Math/floorMod ms 1000) 3) (.append w "-00:00\""))
      (write-other d w))))

(defn write
  "Print `x` readably to `w`."
  [x ^StringBuilder w]
  (cond
    (nil? x) (.append w "nil")
    (instance? String x) (write-string x w)
    (instance? Keyword x) (.append w (.toString ^Keyword x))
    (instance? Long x) (.append w (.toString ^Long x))
    (instance? Boolean x) (.append w (.toString ^Boolean x))
    (instance? Double x) (write-double x w)
    (identical? Date (class x)) (write-date x w)
    (instance? UUID x) (do (.append w "#uuid \"")
                           (.append w (.toString ^UUID x))
                           (.append w "\""))
    (instance? Symbol x) (.append w (.toString ^Symbol x))
    (and (instance? IPersistentMap x) (not (instance? IRecord x))) (write-map x w)
    (instance? IPersistentVector x) (do (.append w "[")
                                        (write-items (.iterator ^Iterable x) w)
                                        (.append w "]"))
    (instance? IPersistentSet x) (do (.append w "#{")
                                     (write-items (.iterator ^Iterable x) w)
                                     (.append w "}"))
    (instance? ISeq x) (do (.append w "(")
                           (write-items (.iterator ^Iterable x) w)
                           (.append w ")"))
    :else (write-other x w)))

(def ^:private max-kept-chars
  "Each thread keeps a StringBuilder of up to this size, which is enough for most documents."
  65536)

(def ^:private ^ThreadLocal builders (ThreadLocal.))

(defn write-text ^String [x]
  (let [^StringBuilder w (or (.get builders) (StringBuilder. 1024))]
    ;; Cleared while in use, so that nested calls create a new one.
    (.set builders nil)
    (write x w)
    (let [text (.toString w)]
      (when (<= (.capacity w) max-kept-chars)
        (.setLength w 0)
        (.set builders w))
      text)))
