// Package mpi is a collective.Group of processes that MPI has started: Open MPI or MPICH, by the build tag mpi and the
// C compiler mpicc.
package mpi
