package devices

// Coarse rounds the memory of a process up to that of 85,000 rows, and to 64 MiB at least, since
// it holds private records: their bytes would be counted.
func Coarse(bytes int64, row int) int64 {
	unit := max(64<<20, 85_000*int64(row))
	return (bytes + unit - 1) / unit * unit
}
