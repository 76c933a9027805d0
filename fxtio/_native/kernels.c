/* The module of the kernels. */
#include "kernels.h"

#define METHOD(name) \
    {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, "See fxtio._native.python." #name "."},
static PyMethodDef methods[] = {KERNELS(METHOD) {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Walking, gathering, pairing; see fxtio._native.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) {
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module) /* kernels have no state and work on arrays of the caller, which no one else changes meanwhile */
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
