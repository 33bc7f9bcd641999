"""Engines: transports of questions and answers between coordinator and sites."""
