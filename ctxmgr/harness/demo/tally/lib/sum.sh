# Add up the lines of a receipt, in cents.
sum() {
  total=0
  while read -r _name quantity cents; do
    price=$((quantity * cents))
    total=$((total + $(discounted "$price")))
  done < "$1"
  echo "$total"
}
