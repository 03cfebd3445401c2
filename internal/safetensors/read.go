package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Read reads a whole file of at most limit bytes and returns its tensors in the
// order of their data. It takes memory only as bytes arrive, whatever sizes the
// file claims, and accepts nothing that the layout does not allow. Types other
// than float32 are refused.
func Read(r io.Reader, limit int64) ([]Tensor, map[string]string, error) {
	tensors, metadata, err := read(r, limit)
	if err != nil {
		return nil, nil, fmt.Errorf("reading safetensors: %w", err)
	}
	return tensors, metadata, nil
}

func read(r io.Reader, limit int64) ([]Tensor, map[string]string, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, nil, short("the header's length", err)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader {
		return nil, nil, malformed("the header claims %d bytes, the format allows %d", n, maxHeader)
	}
	if limit < int64(len(prefix)) || int64(n) > limit-int64(len(prefix)) {
		return nil, nil, malformed("the header claims %d bytes, the limit for the file is %d", n, limit)
	}
	var head bytes.Buffer
	if _, err := io.CopyN(&head, r, int64(n)); err != nil {
		return nil, nil, short("the header", err)
	}
	entries, metadata, err := parseHeader(head.Bytes())
	if err != nil {
		return nil, nil, err
	}
	if err := layOut(entries, limit-int64(len(prefix))-int64(n)); err != nil {
		return nil, nil, err
	}
	tensors := make([]Tensor, len(entries))
	buf := make([]byte, chunkSize)
	for i, e := range entries {
		data, err := readValues(r, (e.end-e.begin)/valueSize, buf)
		if err != nil {
			return nil, nil, short(fmt.Sprintf("tensor %.64q", e.name), err)
		}
		tensors[i] = Tensor{Name: e.name, Shape: e.shape, Data: data}
	}
	if _, err := io.ReadFull(r, buf[:1]); err == nil {
		return nil, nil, malformed("bytes follow the last tensor")
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return tensors, metadata, nil
}

// short says what the file was too short for; other errors of the reader pass.
func short(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the file ends within %s", what)
	}
	return err
}

// readValues reads count values by way of buf.
func readValues(r io.Reader, count int64, buf []byte) ([]float32, error) {
	data := make([]float32, 0, min(count, int64(len(buf)/valueSize)))
	for int64(len(data)) < count {
		b := buf[:min(int64(len(buf)), valueSize*(count-int64(len(data))))]
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[valueSize:] {
			data = append(data, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	}
	return data, nil
}

// An entry is a tensor as the header describes it.
type entry struct {
	name       string
	dtype      string
	shape      []int
	begin, end int64
}

// layOut orders entries by their place in the data and checks that they fill it,
// one after the other, within limit bytes.
func layOut(entries []entry, limit int64) error {
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) // empty ones before their neighbour
	})
	var at int64
	for _, e := range entries {
		size, err := byteSize(e.shape)
		if err != nil {
			return fmt.Errorf("tensor %.64q: %w", e.name, err)
		}
		if e.begin != at {
			return malformed("tensor %.64q starts at byte %d of the data, but the tensors before it end at %d", e.name, e.begin, at)
		}
		if e.end-e.begin != size {
			return malformed("tensor %.64q: shape %s takes %d bytes, its offsets span %d", e.name, brief(e.shape), size, e.end-e.begin)
		}
		at = e.end
	}
	if at > limit {
		return malformed("the tensors take %d bytes, the limit leaves %d", at, limit)
	}
	return nil
}

func parseHeader(head []byte) (entries []entry, metadata map[string]string, err error) {
	if len(head) == 0 || head[0] != '{' || !utf8.Valid(head) {
		return nil, nil, malformed("the header is not a JSON object in UTF-8")
	}
	p := parser{json.NewDecoder(bytes.NewReader(head))}
	p.UseNumber()
	err = p.object(func(name string) error {
		if name == metadataKey {
			metadata = map[string]string{}
			return p.object(func(key string) (err error) {
				metadata[key], err = p.text()
				return err
			})
		}
		e, err := p.entry(name)
		if err != nil {
			return fmt.Errorf("tensor %.64q: %w", name, err)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if rest := bytes.TrimRight(head[p.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, malformed("the header goes on after its JSON object")
	}
	return entries, metadata, nil
}

// A parser walks JSON token by token: unlike json.Unmarshal it sees repeated keys
// and distinguishes their case.
type parser struct{ *json.Decoder }

func (p parser) token() (json.Token, error) {
	t, err := p.Token()
	if err != nil {
		return nil, malformed("the header is not valid JSON: %v", err)
	}
	return t, nil
}

func (p parser) delim(want json.Delim) error {
	t, err := p.token()
	if err == nil && t != want {
		err = malformed("the header has %q where %q belongs", brief(t), want.String())
	}
	return err
}

func (p parser) text() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", malformed("the header has %q where a string belongs", brief(t))
	}
	return s, nil
}

// count reads an integer from 0 to 2⁶³−1.
func (p parser) count() (int64, error) {
	t, err := p.token()
	if err != nil {
		return 0, err
	}
	if number, ok := t.(json.Number); ok {
		if n, err := strconv.ParseUint(number.String(), 10, 63); err == nil {
			return int64(n), nil
		}
	}
	return 0, malformed("the header has %q where an integer from 0 to %d belongs", brief(t), int64(math.MaxInt64))
}

// object calls value at the value of each key.
func (p parser) object(value func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for p.More() {
		key, err := p.text()
		if err != nil {
			return err
		}
		if seen[key] {
			return malformed("the header has %.64q twice", key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	return p.delim('}')
}

func (p parser) counts() (list []int64, err error) {
	if err := p.delim('['); err != nil {
		return nil, err
	}
	for p.More() {
		n, err := p.count()
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, p.delim(']')
}

func (p parser) entry(name string) (entry, error) {
	e := entry{name: name}
	fields := 0
	err := p.object(func(key string) (err error) {
		fields++
		switch key {
		case "dtype":
			e.dtype, err = p.text()
			return err
		case "shape":
			dims, err := p.counts()
			e.shape = make([]int, len(dims))
			for i, n := range dims {
				if n > math.MaxInt {
					return malformed("dimension %d is too large", n)
				}
				e.shape[i] = int(n)
			}
			return err
		case "data_offsets":
			ends, err := p.counts()
			if err == nil && (len(ends) != 2 || ends[0] > ends[1]) {
				err = malformed("data offsets %s are not a begin and an end", brief(ends))
			}
			if err == nil {
				e.begin, e.end = ends[0], ends[1]
			}
			return err
		default:
			return malformed("unknown field %.64q", key)
		}
	})
	switch {
	case err != nil:
		return e, err
	case fields != 3: // no field is unknown and none comes twice
		return e, malformed("it needs dtype, shape and data_offsets")
	case e.dtype != dtypeF32:
		return e, malformed("its type is %.64s, and only %s is read: convert the file to float32 first", e.dtype, dtypeF32)
	}
	return e, nil
}
