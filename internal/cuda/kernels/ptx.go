package kernels

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
)

//go:embed ptx/*.ptx
var files embed.FS

//go:embed cubin/*.gz
var cubins embed.FS

//go:embed sass/*.csv
var tables embed.FS

// Capabilities are those that modules are assembled for ahead, of an A100 and an H100.
var Capabilities = []int{80, 90}

// cubinVersion is the first driver that takes what this project's assembler makes: drivers take machine code of
// their own major version of CUDA, and of older ones.
const cubinVersion = 13000

// Modules lists the modules.
func Modules() ([]string, error) {
	entries, err := files.ReadDir("ptx")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".ptx"))
	}
	return names, err
}

// PTX is the assembly of a module.
func PTX(module string) ([]byte, error) {
	ptx, err := files.ReadFile("ptx/" + module + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("there is no module %s of kernels", module)
	}
	return ptx, nil
}

// Images gives what a driver is to load for a module, in the order in which to try it, by the GPU's compute
// capability and the driver's version: machine code, where there is some that both should take, and PTX, which
// every driver assembles. Only GPUs of just these Capabilities get machine code: PTX becomes code for the others' own
// multiprocessors. ImagesVariable may force either.
func Images(module string, capability, version int) ([][]byte, error) {
	ptx, err := PTX(module)
	if err != nil {
		return nil, err
	}
	if version < cubinVersion || !slices.Contains(Capabilities, capability) {
		return forced([][]byte{ptx})
	}
	cubin, _, err := Cubin(module, capability)
	if err != nil {
		return nil, err
	}
	return forced([][]byte{cubin, ptx})
}

// CubinFile is where a module's machine code is kept below this folder.
func CubinFile(module string, capability int) string {
	return fmt.Sprintf("cubin/%s.sm_%d.gz", module, capability)
}

// Cubin is a module's machine code, and the digest of the PTX that it was made of.
func Cubin(module string, capability int) (code []byte, ptx string, err error) {
	file := CubinFile(module, capability)
	packed, err := cubins.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("module %s of kernels has no %s; make sass writes it", module, file)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, "", err
	}
	code, err = io.ReadAll(z)
	return code, z.Comment, err
}

// Assembled is the table of what assemblers make of a module, as internal/sass reads it.
func Assembled(module string) ([]byte, error) {
	table, err := tables.ReadFile("sass/" + module + ".csv")
	if err != nil {
		return nil, fmt.Errorf("module %s of kernels has no table of what it assembles to; make sass writes it", module)
	}
	return table, nil
}
