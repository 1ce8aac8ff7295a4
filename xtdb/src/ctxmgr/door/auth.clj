(ns ctxmgr.door.auth
  "Authentication by an optional shared token and an optional JSON Web Key Set. Pure.

  Both are checked before parameters and body, so that unauthenticated requests cost little."
  (:require [clojure.data.json :as json]
            [clojure.string :as str])
  (:import [java.math BigInteger]
           [java.nio.charset StandardCharsets]
           [java.security AlgorithmParameters GeneralSecurityException KeyFactory MessageDigest PublicKey Signature]
           [java.security.spec ECGenParameterSpec ECParameterSpec ECPoint ECPublicKeySpec RSAPublicKeySpec]
           [java.util Base64]))

(defn- utf8 ^bytes [^String s]
  (.getBytes s StandardCharsets/UTF_8))

(defn bearer
  "The token of an Authorization header, or nil."
  [^String header]
  (when (and header (.regionMatches header true 0 "Bearer " 0 7))
    (str/trim (subs header 7))))

(defn token-ok?
  "Compares in constant time."
  [^String expected given]
  (and given (MessageDigest/isEqual (utf8 expected) (utf8 given))))

;; ---- JSON Web Keys

(defn- base64url ^bytes [^String s]
  (.decode (Base64/getUrlDecoder) s))

(defn- unsigned [s]
  (BigInteger. 1 (base64url s)))

(defn- rsa-key [{:strs [n e]}]
  (.generatePublic (KeyFactory/getInstance "RSA") (RSAPublicKeySpec. (unsigned n) (unsigned e))))

(def ^:private curves {"P-256" "secp256r1", "P-384" "secp384r1", "P-521" "secp521r1"})

(defn- ec-key [{:strs [crv x y]}]
  (let [parameters (doto (AlgorithmParameters/getInstance "EC")
                     (.init (ECGenParameterSpec. (curves crv))))]
    (.generatePublic (KeyFactory/getInstance "EC")
                     (ECPublicKeySpec. (ECPoint. (unsigned x) (unsigned y))
                                       (.getParameterSpec parameters ECParameterSpec)))))

(defn- public-key ^PublicKey [{:strs [kty] :as jwk}]
  (case kty
    "RSA" (rsa-key jwk)
    "EC" (ec-key jwk)
    (throw (IllegalArgumentException. (str "a key of type " (pr-str kty) " in :jwks; RSA and EC are known")))))

(defn read-jwks
  "The keys of a key set by their id. Throws if a key is not supported."
  [text]
  (into {} (map (juxt #(get % "kid") public-key)) (get (json/read-str text) "keys")))

(def ^:private algorithms
  {"RS256" ["RSA" "SHA256withRSA"]
   "RS384" ["RSA" "SHA384withRSA"]
   "RS512" ["RSA" "SHA512withRSA"]
   "ES256" ["EC" "SHA256withECDSAinP1363Format"]
   "ES384" ["EC" "SHA384withECDSAinP1363Format"]
   "ES512" ["EC" "SHA512withECDSAinP1363Format"]})

(defn- json-part [s]
  (json/read-str (String. (base64url s) StandardCharsets/UTF_8)))

(defn- signed? [keys header signing-input signature]
  (let [[key-kind algorithm] (algorithms (get header "alg"))
        ^PublicKey key (get keys (get header "kid"))]
    (boolean
     (and key key-kind (= key-kind (.getAlgorithm key))
          (.verify (doto (Signature/getInstance algorithm)
                     (.initVerify key)
                     (.update (utf8 signing-input)))
                   (base64url signature))))))

(defn- in-time? [{:strs [exp nbf]} now-seconds]
  (and (or (nil? exp) (< now-seconds exp))
       (or (nil? nbf) (<= nbf now-seconds))))

(defn jwt-ok?
  "Is `token` signed by one of `keys`, and valid now?"
  [keys token now-seconds]
  (try
    (let [[header claims signature :as parts] (some-> token (str/split #"\." -1))]
      (and (= 3 (count parts))
           (signed? keys (json-part header) (str header "." claims) signature)
           (in-time? (json-part claims) now-seconds)))
    (catch GeneralSecurityException _ false)
    (catch RuntimeException _ false)
    (catch java.io.IOException _ false)))
