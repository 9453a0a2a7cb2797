/** Is never loaded to its end. */
await new Promise(() => {});

export {};
