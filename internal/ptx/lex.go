package ptx

import "fmt"

type token struct {
	text string
	line int
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%' || c == '.'
}

// lex splits PTX into words, strings and single punctuation marks. Names of
// instructions keep their modifiers: ld.global.L1::no_allocate.f32 is a word.
func lex(src []byte) ([]token, error) {
	var out []token
	line := 1
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == 0:
			i++
		case c == '/' && i+1 < len(src) && src[i+1] == '/':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(src) && src[i+1] == '*':
			start := line
			for i += 2; ; i++ {
				if i+1 >= len(src) {
					return nil, fmt.Errorf("ptx: line %d: comment without end", start)
				}
				if src[i] == '\n' {
					line++
				}
				if src[i] == '*' && src[i+1] == '/' {
					i += 2
					break
				}
			}
		case c == '"':
			j := i + 1
			for j < len(src) && src[j] != '"' && src[j] != '\n' {
				j++
			}
			if j >= len(src) || src[j] == '\n' {
				return nil, fmt.Errorf("ptx: line %d: string without end", line)
			}
			out = append(out, token{string(src[i : j+1]), line})
			i = j + 1
		case wordByte(c):
			j := i
			for j < len(src) {
				if src[j] == ':' && j+2 < len(src) && src[j+1] == ':' && wordByte(src[j+2]) {
					j += 2
					continue
				}
				if !wordByte(src[j]) {
					break
				}
				j++
			}
			out = append(out, token{string(src[i:j]), line})
			i = j
		default:
			out = append(out, token{string(src[i : i+1]), line})
			i++
		}
	}
	return out, nil
}
