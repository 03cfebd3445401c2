package kernels

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"strings"
)

//go:embed ptx/*.ptx
var files embed.FS

//go:embed cubin/*.gz
var cubins embed.FS

//go:embed sass/*.csv
var tables embed.FS

// Capabilities are those that modules are assembled for ahead: A100, RTX 30 and 40, H100 and H200, B200. For RTX 50, of 12.0, the
// project's assembler makes longer loops than those of newer drivers, which get PTX.
var Capabilities = []int{80, 86, 90, 100}

// cubinVersion is the first driver that takes what this project's assembler makes: drivers take machine code of
// their own major version of CUDA, and of older ones.
const cubinVersion = 12000

// CapabilityFor is which of the Capabilities a GPU runs the code of, the highest of its own major number that is not above it:
// code for 8.6 runs on 8.9 (for which the assembler makes the same instructions), code for 10.0 on 10.3. 0 is none.
func CapabilityFor(capability int) int {
	best := 0
	for _, c := range Capabilities {
		if c/10 == capability/10 && c <= capability {
			best = max(best, c)
		}
	}
	return best
}

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
// every driver assembles. ImagesVariable may force either.
func Images(module string, capability, version int) ([][]byte, error) {
	ptx, err := PTX(module)
	if err != nil {
		return nil, err
	}
	of := CapabilityFor(capability)
	if version < cubinVersion || of == 0 {
		return forced([][]byte{ptx})
	}
	cubin, _, err := Cubin(module, of)
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
