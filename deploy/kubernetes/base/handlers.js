// The tasks that the workers run. Handlers with dependencies belong in an image of your own, FROM this one.
export default [
  {
    kind: "hello",
    async run(data, { signal }) {
      signal.throwIfAborted();
      return { greeted: data?.name ?? "world" };
    },
  },
];
