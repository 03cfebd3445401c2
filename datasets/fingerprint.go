package datasets

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Fingerprint identifies the records of a split of values, in any order.
func (m Split) Fingerprint() string {
	width := m.Shape[2]
	var records []string
	for i := range m.Len() {
		var record []byte
		for _, v := range m.Values[i*width:][:width] {
			record = binary.LittleEndian.AppendUint32(record, math.Float32bits(v))
		}
		if m.Targets != nil {
			record = binary.LittleEndian.AppendUint32(record, math.Float32bits(m.Targets[i]))
		} else {
			record = append(record, m.Labels[i])
		}
		h := sha256.Sum256(record)
		records = append(records, string(h[:]))
	}
	slices.Sort(records)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(records, ""))))
}
