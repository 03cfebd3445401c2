package main

import (
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// tagsOf are the platforms on which a binary runs, as wheels name them, by what stands in it.
func tagsOf(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if b, err := elf.NewFile(f); err == nil {
		return linuxTags(b)
	}
	if b, err := macho.NewFile(f); err == nil {
		return macTags(b)
	}
	if b, err := pe.NewFile(f); err == nil {
		return windowsTags(b)
	}
	return nil, fmt.Errorf("is no program of Linux, macOS or Windows: build ./cmd/privgrad")
}

// oldestGlibc is the least version that is claimed, 2.17, which all systems have that manylinux2014 names.
const oldestGlibc = 17

// policyLibraries are those of glibc, which every system of its version has.
var policyLibraries = []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

// linuxTags are those of the oldest glibc that has all symbols. A program that is linked to none runs on every Linux, also
// on one with musl.
func linuxTags(f *elf.File) ([]string, error) {
	machine := map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}[f.Machine]
	if machine == "" {
		return nil, fmt.Errorf("is for %v, of which there are no wheels: build for amd64 or arm64", f.Machine)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	oldest := []string{fmt.Sprintf("manylinux_2_%d_%s", oldestGlibc, machine), "manylinux2014_" + machine}
	if len(libraries) == 0 {
		return append(oldest, "musllinux_1_1_"+machine), nil
	}
	for _, l := range libraries {
		if !slices.Contains(policyLibraries, l) {
			return nil, fmt.Errorf("needs %s, which not every Linux has: build it so that it opens that library itself", l)
		}
	}
	minor, err := glibc(f)
	if err != nil {
		return nil, err
	}
	if minor <= oldestGlibc {
		return oldest, nil
	}
	return []string{fmt.Sprintf("manylinux_2_%d_%s", minor, machine)}, nil
}

// glibc is N of the version 2.N that has all symbols of a program.
func glibc(f *elf.File) (int, error) {
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return 0, err
	}
	var versions []string
	for _, n := range needs {
		for _, dep := range n.Needs {
			versions = append(versions, dep.Dep)
		}
	}
	return newest(versions)
}

// newest is N of the last version GLIBC_2.N of some.
func newest(versions []string) (n int, err error) {
	for _, v := range versions {
		text, its := strings.CutPrefix(v, "GLIBC_2.")
		text, _, _ = strings.Cut(text, ".")
		minor, err := strconv.Atoi(text)
		if !its || err != nil {
			return 0, fmt.Errorf("needs symbols of %s, which is no version of glibc 2: build it for that", v)
		}
		n = max(n, minor)
	}
	return n, nil
}

// buildVersion is the load command that says for which macOS a program is.
const buildVersion = 0x32

func macTags(f *macho.File) ([]string, error) {
	machine := map[macho.Cpu]string{macho.CpuAmd64: "x86_64", macho.CpuArm64: "arm64"}[f.Cpu]
	if machine == "" {
		return nil, fmt.Errorf("is for %v, of which there are no wheels: build for amd64 or arm64", f.Cpu)
	}
	for _, l := range f.Loads {
		raw := l.Raw()
		if len(raw) >= 16 && f.ByteOrder.Uint32(raw) == buildVersion {
			least := f.ByteOrder.Uint32(raw[12:])
			return []string{fmt.Sprintf("macosx_%d_%d_%s", least>>16, least>>8&0xff, machine)}, nil
		}
	}
	return nil, fmt.Errorf("does not say for which macOS it is: build it by Go 1.26 or newer")
}

func windowsTags(f *pe.File) ([]string, error) {
	switch f.Machine {
	case pe.IMAGE_FILE_MACHINE_AMD64:
		return []string{"win_amd64"}, nil
	case pe.IMAGE_FILE_MACHINE_ARM64:
		return []string{"win_arm64"}, nil
	}
	return nil, fmt.Errorf("is for machine %#x, of which there are no wheels: build for amd64 or arm64", f.Machine)
}
