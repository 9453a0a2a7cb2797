// The process of one contender: see process.js.
const [contender = "", url = ""] = process.argv.slice(2);
/** @type {{ open: (url: string) => Promise<Record<string, (number: number) => Promise<unknown>>> }} */
const { open } = await import(`./${contender}.js`);
const served = await Promise.resolve(open(url));
process.on("message", async (/** @type {{ what: string, number: number }} */ { what, number }) => {
  try {
    const value = await served[what]?.(number);
    process.send?.({ value });
  } catch (error) {
    process.send?.({ error: error instanceof Error ? error.stack : String(error) });
  }
});
process.once("disconnect", () => process.exit());
process.send?.({});
