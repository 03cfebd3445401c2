package ptx

import (
	"bytes"
	"errors"
	"fmt"
)

type token struct {
	text string
	line int
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%' || c == '.'
}

// lex splits PTX into words, strings and single punctuation marks. Names of
// instructions keep their modifiers: ld.global.f32 is a word.
func lex(src []byte) ([]token, error) {
	var out []token
	for line := 1; len(src) > 0; {
		n, isToken, err := scan(src)
		if err != nil {
			return nil, fmt.Errorf("ptx: line %d: %w", line, err)
		}
		if isToken {
			out = append(out, token{string(src[:n]), line})
		} else {
			line += bytes.Count(src[:n], []byte("\n"))
		}
		src = src[n:]
	}
	return out, nil
}

// scan gives the length of what src begins with: a token, white space or a comment.
func scan(src []byte) (n int, isToken bool, err error) {
	if n = wordLength(src); n > 0 {
		return n, true, nil
	}
	switch {
	case blank(src[0]):
		for n = 1; n < len(src) && blank(src[n]); n++ {
		}
		return n, false, nil
	case bytes.HasPrefix(src, []byte("//")):
		if n = bytes.IndexByte(src, '\n'); n < 0 {
			n = len(src)
		}
		return n, false, nil
	case bytes.HasPrefix(src, []byte("/*")):
		if n = bytes.Index(src[2:], []byte("*/")); n < 0 {
			return 0, false, errors.New("comment without end")
		}
		return n + 4, false, nil
	case src[0] == '"':
		if n = bytes.IndexAny(src[1:], "\"\n"); n < 0 || src[1+n] != '"' {
			return 0, false, errors.New("string without end")
		}
		return n + 2, true, nil
	}
	return 1, true, nil
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0 }

// wordLength is 0 where src begins with no word.
func wordLength(src []byte) int {
	for i, c := range src {
		if !wordByte(c) {
			return i
		}
	}
	return len(src)
}
