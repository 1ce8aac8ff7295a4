# Write cents as people do: 1672 becomes EUR 16.72.
format() {
  printf '%s %d.%02d\n' "$CURRENCY" $(($1 / 100)) $(($1 % 100))
}
