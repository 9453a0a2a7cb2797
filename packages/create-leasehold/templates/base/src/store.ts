/** Where the program keeps its leases and tasks: in PostgreSQL, or without a server in a directory. */
export const url = process.env["DATABASE_URL"] ?? "pglite:data";
