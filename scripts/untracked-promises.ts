import asyncHooks from "node:async_hooks";

// Node's test runner follows every promise, to name the test in which an error was not caught. Tests that await much spend a quarter of their
// time on it. Not followed, such an error fails its file instead of its test.

const { createHook } = asyncHooks;

asyncHooks.createHook = (callbacks) => {
  const untracked = { ...callbacks, trackPromises: false };
  return createHook(untracked);
};
