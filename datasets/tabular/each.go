package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/privgrad/privgrad/datasets"
)

// blockSize is how much of a file's text is read at a time; tests make it small.
var blockSize = 4 << 20

// Each gives the records that Open gives, in their order, some at a time: for tables beyond memory.
// What it hands on is written over afterwards.
func Each(path string, o Options, take func(train, test datasets.Split) error) error {
	set, _, s, err := facts(path, o)
	if err != nil {
		return err
	}
	for i, file := range s.files(path) {
		if err := s.each(file, i, set, o, take); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) each(path string, file int, set *datasets.Set, o Options, take func(train, test datasets.Split) error) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var t *table
	var other error // path is no text
	e, into := s.encoder(), s.sorter(set, o, file)
	err = blocks(f, s.Skip+1, func(text []byte) (err error) {
		if t == nil {
			if other = s.checkBytes(path, text); other != nil {
				return other
			}
			if t, err = s.cut(text, true); err != nil {
				return err
			}
			t.file = file
		} else {
			t.lines = lines(text)
		}
		s.add(e, t, into)
		e.seen.bad = e.seen.bad[:0]
		err = take(set.Train, set.Test)
		for _, m := range []*datasets.Split{&set.Train, &set.Test} {
			m.Values, m.Labels, m.Targets = m.Values[:0], m.Labels[:0], m.Targets[:0]
		}
		return err
	})
	if err != nil && other == nil {
		err = fmt.Errorf("table %s: %w", path, err)
	}
	return err
}

// blocks reads whole lines, in the first block so many at least, unless the text ends before. Of a line that is
// too long it keeps the beginning.
func blocks(r io.Reader, first int, take func(text []byte) error) error {
	var text []byte
	long := false // text ends within a line of which no more is kept
	for {
		n := len(text)
		text = append(text, make([]byte, blockSize)...)
		k, err := io.ReadFull(r, text[n:])
		text = text[:n+k]
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return fmt.Errorf("it cannot be read to its end, or is damaged: copy the file again (%w)", err)
		}
		if long {
			rest := bytes.IndexByte(text[n:], '\n')
			if long = rest < 0; long {
				rest = k
			}
			text = slices.Delete(text, n, n+rest)
		}
		end := bytes.LastIndexByte(text, '\n') + 1
		switch {
		case ended:
			end = len(text)
		case len(text)-end > mostLine+endOfLine:
			text, long = text[:end+mostLine+endOfLine], true
		}
		if !ended && bytes.Count(text[:end], []byte{'\n'}) < max(first, 1) {
			continue
		}
		if err := take(text[:end]); err != nil || ended {
			return err
		}
		text, first = append(text[:0], text[end:]...), 0
	}
}
