/** A store that lacks most of the port. */
export const store = { acquire: async () => [], close: async () => {} };
