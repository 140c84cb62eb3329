"""Tests of why a pod does not run."""
