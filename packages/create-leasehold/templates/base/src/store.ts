/** Where the program stores leases and tasks: in PostgreSQL, or in an embedded database in the directory data. */
export const url = process.env["DATABASE_URL"] ?? "pglite:data";
