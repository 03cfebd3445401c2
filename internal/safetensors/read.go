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
// file claims, and accepts nothing that the layout does not allow. Other types than
// float32, float16, bfloat16 and float64 are refused, and so are values that are not
// finite as float32.
func Read(r io.Reader, limit int64) (tensors []Tensor, metadata map[string]string, err error) {
	defer named(&err)
	entries, metadata, err := readHeader(r, limit)
	if err != nil {
		return nil, nil, err
	}
	tensors = make([]Tensor, len(entries))
	buf := make([]byte, chunkSize)
	for i, e := range entries {
		data, err := readValues(r, e.form, (e.end-e.begin)/e.form.size, buf)
		if err != nil {
			return nil, nil, short(fmt.Sprintf("tensor %.64q", e.name), err)
		}
		if at := slices.IndexFunc(data, func(x float32) bool { return x-x != 0 }); at >= 0 {
			return nil, nil, fmt.Errorf("tensor %.64q: %w: value %d of %d is %v in float32", e.name, ErrNotFinite, at, len(data), data[at])
		}
		tensors[i] = Tensor{Name: e.name, Shape: e.shape, Data: data, Half: e.form.name == forms[1].name}
	}
	if _, err := io.ReadFull(r, buf[:1]); err == nil {
		return nil, nil, malformed("bytes follow the last tensor")
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return tensors, metadata, nil
}

// Metadata is what Read gives beside the tensors; of these it reads no value.
func Metadata(r io.Reader, limit int64) (metadata map[string]string, err error) {
	defer named(&err)
	_, metadata, err = readHeader(r, limit)
	return metadata, err
}

func named(err *error) {
	if *err != nil {
		*err = fmt.Errorf("reading safetensors: %w", *err)
	}
}

// readHeader reads all that comes before the values.
func readHeader(r io.Reader, limit int64) (entries []entry, metadata map[string]string, err error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, nil, short("the header's length", err)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader {
		if err := other(prefix[:], r); err != nil {
			return nil, nil, err
		}
		return nil, nil, malformed("the header claims %d bytes, the format allows %d", n, maxHeader)
	}
	if limit < int64(len(prefix)) || int64(n) > limit-int64(len(prefix)) {
		return nil, nil, malformed("the header claims %d bytes, the limit for the file is %d", n, limit)
	}
	var head bytes.Buffer
	_, err = io.CopyN(&head, r, int64(n))
	if head.Len() > 0 && head.Bytes()[0] != '{' {
		if err := other(prefix[:], bytes.NewReader(head.Bytes())); err != nil {
			return nil, nil, err
		}
	}
	if err != nil {
		return nil, nil, short("the header", err)
	}
	if entries, metadata, err = parseHeader(head.Bytes()); err != nil {
		return nil, nil, err
	}
	return entries, metadata, layOut(entries, limit-int64(len(prefix))-int64(n))
}

// short says what the file was too short for; other errors of the reader pass.
func short(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the file ends within %s", what)
	}
	return err
}

// readValues reads count values by way of buf.
func readValues(r io.Reader, f form, count int64, buf []byte) ([]float32, error) {
	data := make([]float32, 0, min(count, int64(len(buf))/f.size))
	for int64(len(data)) < count {
		b := buf[:min(int64(len(buf)), f.size*(count-int64(len(data))))]
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[f.size:] {
			data = append(data, f.read(b))
		}
	}
	return data, nil
}

// An entry is a tensor as the header describes it.
type entry struct {
	name       string
	form       form
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
		size, err := byteSize(e.shape, e.form.size)
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
	p := &parser{Decoder: json.NewDecoder(bytes.NewReader(head))}
	p.UseNumber()
	p.object(func(name string) {
		if name == metadataKey {
			metadata = map[string]string{}
			p.object(func(key string) { metadata[key] = p.text() })
			return
		}
		entries = append(entries, p.entry(name))
		if p.err != nil {
			p.err = fmt.Errorf("tensor %.64q: %w", name, p.err)
		}
	})
	if p.err != nil {
		return nil, nil, p.err
	}
	if rest := bytes.TrimRight(head[p.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, malformed("the header goes on after its JSON object")
	}
	return entries, metadata, nil
}

// A parser walks JSON token by token: unlike json.Unmarshal it sees repeated keys
// and distinguishes their case. After the first error it reads nothing.
type parser struct {
	*json.Decoder
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = malformed(format, args...)
	}
}

func (p *parser) token() json.Token {
	if p.err != nil {
		return nil
	}
	t, err := p.Token()
	if err != nil {
		p.fail("the header is not valid JSON: %v", err)
	}
	return t
}

func (p *parser) delim(want json.Delim) {
	if t := p.token(); t != want {
		p.fail("the header has %q where %q belongs", brief(t), want.String())
	}
}

func (p *parser) text() string {
	t := p.token()
	s, ok := t.(string)
	if !ok {
		p.fail("the header has %q where a string belongs", brief(t))
	}
	return s
}

// count reads an integer from 0 to 2⁶³−1.
func (p *parser) count() int64 {
	t := p.token()
	if number, ok := t.(json.Number); ok {
		if n, err := strconv.ParseUint(number.String(), 10, 63); err == nil {
			return int64(n)
		}
	}
	p.fail("the header has %q where an integer from 0 to %d belongs", brief(t), int64(math.MaxInt64))
	return 0
}

// object calls value at the value of each key.
func (p *parser) object(value func(key string)) {
	p.delim('{')
	seen := map[string]bool{}
	for p.err == nil && p.More() {
		key := p.text()
		if seen[key] {
			p.fail("the header has %.64q twice", key)
		}
		if p.err != nil {
			return
		}
		seen[key] = true
		value(key)
	}
	p.delim('}')
}

func (p *parser) counts() (list []int64) {
	p.delim('[')
	for p.err == nil && p.More() {
		if list = append(list, p.count()); len(list) > maxDims {
			p.fail("a list has more than %d numbers", maxDims)
		}
	}
	p.delim(']')
	return list
}

func (p *parser) entry(name string) entry {
	e, dtype := entry{name: name}, ""
	fields := 0
	p.object(func(key string) {
		fields++
		switch key {
		case "dtype":
			dtype = p.text()
		case "shape":
			dims := p.counts()
			e.shape = make([]int, len(dims))
			for i, n := range dims {
				if n > math.MaxInt {
					p.fail("dimension %d is too large", n)
				}
				e.shape[i] = int(n)
			}
		case "data_offsets":
			ends := p.counts()
			if len(ends) != 2 || ends[0] > ends[1] {
				p.fail("data offsets %s are not a begin and an end", brief(ends))
				return
			}
			e.begin, e.end = ends[0], ends[1]
		default:
			p.fail("unknown field %.64q", key)
		}
	})
	switch {
	case fields != 3: // no field is unknown and none comes twice
		p.fail("it needs dtype, shape and data_offsets")
	default:
		i := slices.IndexFunc(forms, func(f form) bool { return f.name == dtype })
		if i < 0 {
			p.fail("its type is %.64q, and F32, F16, BF16 and F64 are read: convert it to float32, or leave it out of the file", dtype)
			break
		}
		e.form = forms[i]
	}
	return e
}
