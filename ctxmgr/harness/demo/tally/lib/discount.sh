# Take the discount off an amount in cents; parts of a cent are dropped.
discounted() {
  echo $(($1 * (100 - DISCOUNT) / 100))
}
