(ns ctxmgr.door.links
  "Marks values of a reply that are entity ids. Reads the given database."
  (:require [xtdb.api :as xt])
  (:import [java.io Writer]))

(defrecord EntityRef [eid])

(defmethod print-method EntityRef [{:keys [eid]} ^Writer w]
  (.write w "#xtdb.http/entity-ref ")
  (print-method eid w))

(defn- entity? [db x]
  (try
    (some? (xt/entity-tx db x))
    (catch IllegalArgumentException _ false)
    (catch xtdb.IllegalArgumentException _ false)))

(defn linker
  "A function that turns ids of existing entities into EntityRefs; each value is looked up once."
  [db]
  (let [seen (volatile! {})]
    (fn [x]
      (if (or (coll? x) (nil? x))
        x
        (let [known (get @seen x ::new)]
          (if (not= known ::new)
            known
            (let [linked (if (entity? db x) (->EntityRef x) x)]
              (vswap! seen assoc x linked)
              linked)))))))
