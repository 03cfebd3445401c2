package scale

import (
	"bytes"
	"os"
	"strconv"
)

// written is the memory of this process that stands for no file, in bytes; 0 where the system does not say. It allocates little,
// as it is asked often.
func written() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	var buffer [4096]byte
	n, _ := f.Read(buffer[:]) // what is missing is not found
	_, rest, _ := bytes.Cut(buffer[:n], []byte("\nRssAnon:"))
	number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " \t"), []byte(" "))
	kilobytes, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
