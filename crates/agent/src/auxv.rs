//! The initial stack: arguments, environment, auxiliary vector.

/// Types of entries, as the kernel numbers them.
pub mod at {
    /// Program headers.
    pub const AT_PHDR: u64 = 3;
    /// Number of program headers.
    pub const AT_PHNUM: u64 = 5;
    /// Base of the interpreter.
    pub const AT_BASE: u64 = 7;
    /// Entry point of the program.
    pub const AT_ENTRY: u64 = 9;
    /// File name of the program.
    pub const AT_EXECFN: u64 = 31;
    /// More features of the CPU.
    pub const AT_HWCAP2: u64 = 26;
    /// Address of the vdso.
    pub const AT_SYSINFO_EHDR: u64 = 33;
}

/// The initial stack as the kernel laid it out.
pub struct InitialStack {
    /// Number of arguments.
    pub argc: u64,
    /// The arguments' addresses, NULL-terminated.
    pub argv: *mut u64,
    /// The environment's addresses, NULL-terminated.
    pub envp: *mut u64,
    /// The auxiliary vector.
    pub auxv: Auxv,
}

/// The auxiliary vector, pairs of type and value up to type 0.
pub struct Auxv(*mut [u64; 2]);

impl InitialStack {
    /// Finds the parts above `argc`.
    ///
    /// # Safety
    ///
    /// `stack` is the stack pointer at process entry.
    pub unsafe fn new(stack: *mut u64) -> Self {
        // SAFETY: the kernel's layout: argc, argv, NULL, envp, NULL, auxv.
        unsafe {
            let argc = *stack;
            let argv = stack.add(1);
            let envp = argv.add(argc as usize + 1);
            let mut end = envp;
            while *end != 0 {
                end = end.add(1);
            }
            InitialStack { argc, argv, envp, auxv: Auxv(end.add(1).cast()) }
        }
    }
}

impl Auxv {
    fn find(&self, kind: u64) -> Option<*mut [u64; 2]> {
        let mut at = self.0;
        // SAFETY: the vector ends with type 0 (AT_NULL).
        unsafe {
            while (*at)[0] != 0 {
                if (*at)[0] == kind {
                    return Some(at);
                }
                at = at.add(1);
            }
        }
        None
    }

    /// Address of the vector, on the stack.
    pub fn address(&self) -> u64 {
        self.0 as u64
    }

    /// The value of a type.
    pub fn get(&self, kind: u64) -> Option<u64> {
        // SAFETY: found inside the vector.
        self.find(kind).map(|at| unsafe { (*at)[1] })
    }

    /// Changes the value of a type that is there.
    pub fn set(&mut self, kind: u64, value: u64) {
        if let Some(at) = self.find(kind) {
            // SAFETY: found inside the vector, which is on the writable stack.
            unsafe { (*at)[1] = value }
        }
    }

    /// Turns an entry into one that is ignored.
    pub fn hide(&mut self, kind: u64) {
        const AT_IGNORE: u64 = 1;
        if let Some(at) = self.find(kind) {
            // SAFETY: as above.
            unsafe { *at = [AT_IGNORE, 0] }
        }
    }
}

/// The bytes of a NUL-terminated string, without the NUL.
///
/// # Safety
///
/// `at` points to such a string that outlives the result.
pub unsafe fn c_string(at: u64) -> &'static [u8] {
    let mut n = 0;
    // SAFETY: by this function's contract.
    unsafe {
        while *((at + n) as *const u8) != 0 {
            n += 1;
        }
        core::slice::from_raw_parts(at as *const u8, n as usize)
    }
}
