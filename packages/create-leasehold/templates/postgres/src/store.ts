/** Where the program stores leases and tasks. The default is the database of compose.yaml. */
export const url = process.env["DATABASE_URL"] ?? "postgres://app:development@127.0.0.1:5432/app";
