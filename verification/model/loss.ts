/** What a program does to the calls of a client. `reset`: the connection breaks after the store has decided. */
export type Loss = "request" | "reply" | "reset";
