/** What the query of a URL says: plain texts, so that it can be read and shared. */
export type Search = Readonly<Record<string, string | undefined>>;
