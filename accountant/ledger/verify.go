package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// The ledger's bbolt file, format version 2, with 4 KiB pages: two meta pages
// written in turn, and what the newer one refers to, a list of the free pages and
// a leaf page. The leaf holds one bucket, small enough to lie inline, of one
// record. bbolt checksums its meta pages alone. Since nothing on the other two is
// free to vary but page numbers and the record, verify rebuilds them and compares
// byte for byte.
const (
	pageSize   = 4096
	maxSize    = 1 << 20 // a ledger takes eight pages
	bucketName = "ledger"
	recordName = "record"
	firstTx    = 2 // bbolt's empty file holds transactions 0 and 1

	boltMagic     = 0xED0CDAED
	boltVersion   = 2
	pageHeader    = 16
	elementHeader = 16
	leafFlag      = 0x02
	metaFlag      = 0x04
	freelistFlag  = 0x10
	bucketFlag    = 0x01

	// recordAt is where the record starts on the leaf page, recordSizeAt where its size stands.
	recordSizeAt = pageHeader + elementHeader + len(bucketName) + 16 + pageHeader + 12
	recordAt     = recordSizeAt + 4 + len(recordName)
)

var order = binary.NativeEndian // as bbolt writes

// corrupt is an ErrCorrupt with its reason and what to do.
func corrupt(reason string, args ...any) error {
	return fmt.Errorf("%w: %s; what was spent is unknown: put an up-to-date intact copy back, "+
		"or count the whole committed schedule as spent and start a new run in another directory",
		ErrCorrupt, fmt.Sprintf(reason, args...))
}

// verify checks every byte of image that a reader of the ledger can reach and
// returns its record. Both meta pages must be good: a bad newer one means that
// charges are missing, and which one was newer cannot be known.
func verify(image []byte) (record, error) {
	if len(image) > maxSize || len(image)%pageSize != 0 || len(image) < 4*pageSize {
		return record{}, corrupt("its size is not one that a ledger can have")
	}
	page := func(id uint64) []byte { return image[id*pageSize:][:pageSize] }
	var metas [2]meta
	for i := range metas {
		m := parseMeta(page(uint64(i)))
		if !bytes.Equal(page(uint64(i)), m.page()) || m.tx%2 != uint64(i) {
			return record{}, corrupt("meta page %d is not what was written", i)
		}
		metas[i] = m
	}
	live := metas[0]
	if metas[1].tx > live.tx {
		live = metas[1]
	}
	if metas[0].tx+metas[1].tx != 2*live.tx-1 {
		return record{}, corrupt("its meta pages are of transactions %d and %d", metas[0].tx, metas[1].tx)
	}
	inside := func(id uint64) bool { return 2 <= id && id < live.pages }
	if live.pages > uint64(len(image)/pageSize) || !inside(live.root) || !inside(live.freelist) || live.root == live.freelist {
		return record{}, corrupt("it refers to pages that it does not have")
	}
	if !bytes.Equal(page(live.freelist), live.freelistPage()) {
		return record{}, corrupt("page %d is not the free list that was written", live.freelist)
	}
	leaf := page(live.root)
	size := order.Uint32(leaf[recordSizeAt:])
	if size > uint32(pageSize-recordAt) {
		return record{}, corrupt("its record has %d bytes", size)
	}
	value := leaf[recordAt:][:size]
	if !bytes.Equal(leaf, live.rootPage(value)) {
		return record{}, corrupt("page %d is not the leaf that was written", live.root)
	}
	rec, err := decode(value)
	if err != nil {
		return record{}, err
	}
	if rec.tx != live.tx {
		return record{}, corrupt("its record is of transaction %d, not %d", rec.tx, live.tx)
	}
	return rec, nil
}

// A meta is what varies between meta pages.
type meta struct {
	root, freelist, pages, tx uint64
}

func parseMeta(page []byte) meta {
	at := func(offset int) uint64 { return order.Uint64(page[pageHeader+offset:]) }
	return meta{root: at(16), freelist: at(32), pages: at(40), tx: at(48)}
}

func (m meta) page() []byte {
	b := appendPageHeader(make([]byte, 0, pageSize), m.tx%2, metaFlag, 0)
	b = appendAll[uint32](b, boltMagic, boltVersion, pageSize, 0)
	b = appendAll(b, m.root, 0, m.freelist, m.pages, m.tx)
	sum := fnv.New64a()
	sum.Write(b[pageHeader:])
	b = appendAll(b, sum.Sum64())
	return b[:pageSize]
}

func (m meta) freelistPage() []byte {
	var free []uint64
	for id := uint64(2); id < m.pages; id++ {
		if id != m.root && id != m.freelist {
			free = append(free, id)
		}
	}
	b := appendPageHeader(make([]byte, 0, pageSize), m.freelist, freelistFlag, uint16(len(free)))
	return appendAll(b, free...)[:pageSize]
}

func (m meta) rootPage(value []byte) []byte {
	record := appendAll[uint32](nil, 0, elementHeader, uint32(len(recordName)), uint32(len(value)))
	record = append(append(record, recordName...), value...)

	bucket := appendAll[uint64](nil, 0, 0) // no page of its own, no sequence
	bucket = append(appendPageHeader(bucket, 0, leafFlag, 1), record...)

	b := appendPageHeader(make([]byte, 0, pageSize), m.root, leafFlag, 1)
	b = appendAll[uint32](b, bucketFlag, elementHeader, uint32(len(bucketName)), uint32(len(bucket)))
	return append(append(b, bucketName...), bucket...)[:pageSize]
}

func appendPageHeader(b []byte, id uint64, flags, count uint16) []byte {
	b = order.AppendUint16(order.AppendUint64(b, id), flags)
	return appendAll[uint32](order.AppendUint16(b, count), 0)
}

func appendAll[T uint32 | uint64](b []byte, values ...T) []byte {
	b, _ = binary.Append(b, order, values)
	return b
}
