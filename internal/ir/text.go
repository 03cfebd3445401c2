package ir

import (
	"fmt"
	"slices"
)

// Programs in files name kinds, functions and losses by words.

func (k Kind) MarshalText() ([]byte, error) {
	return word(int(k), len(kinds), k.String())
}

func (k *Kind) UnmarshalText(text []byte) error {
	return read(k, slices.IndexFunc(kinds[:], func(d definition) bool { return d.name == string(text) }), "kind of op", text)
}

func (f Function) MarshalText() ([]byte, error) {
	return word(int(f), len(functions), f.String())
}

func (f *Function) UnmarshalText(text []byte) error {
	at := slices.IndexFunc(functions[:], func(d function) bool { return d.name == string(text) })
	if string(text) == Identity.String() {
		at = int(Identity)
	}
	return read(f, at, "function of a weight", text)
}

func (l Loss) MarshalText() ([]byte, error) {
	return word(int(l), len(lossNames), l.String())
}

func (l *Loss) UnmarshalText(text []byte) error {
	return read(l, slices.Index(lossNames[:], string(text)), "loss", text)
}

func word(at, known int, name string) ([]byte, error) {
	if at >= known {
		return nil, fmt.Errorf("there is no %s", name)
	}
	return []byte(name), nil
}

func read[T ~uint8](into *T, at int, what string, text []byte) error {
	if at < 0 {
		return fmt.Errorf("there is no %s %.32q", what, text)
	}
	*into = T(at)
	return nil
}
