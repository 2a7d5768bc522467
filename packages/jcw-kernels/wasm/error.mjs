// The error of this package, and the statuses of jcw.h that are given here.

export const BAD_ARGUMENT = 1;
export const BAD_FILE = 2;
export const NO_MEMORY = 4;
export const INTERNAL = 5;

export class JcwError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "JcwError";
    this.status = status;
  }
}
