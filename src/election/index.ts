export { Singleton, type SingletonOptions, type SingletonWork } from "./singleton.js";
