/* The arguments of kernels.  Each kernel has a table of them, by which they are checked, and opened or converted,
 * together.  What they mean is said in Python only, by the stand-in of the kernel. */
#ifndef FXTIO_ARGUMENTS_H
#define FXTIO_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef enum {
    ARRAY_READ, /* a contiguous buffer of items of a known width */
    ARRAY_WRITTEN,
    ARRAY_OR_NUMBER,
    NUMBER_INDEX, /* an int that a size or an index can be */
    NUMBER_SIGNED,
    NUMBER_UNSIGNED,
    NUMBER_WRAPPED, /* the lowest 64 bits of any number */
    ANY_OBJECT      /* the kernel looks at it itself */
} ArgumentKind;

/* What an argument has to be: its name for messages, its kind, and the bytes of an item of an array. */
typedef struct {
    const char *name;
    ArgumentKind kind;
    Py_ssize_t width;
} Argument;

#define READS(name, width) {name, ARRAY_READ, width}
#define WRITES(name, width) {name, ARRAY_WRITTEN, width}
#define READS_OR_NUMBER(name, width) {name, ARRAY_OR_NUMBER, width}
#define INDEX(name) {name, NUMBER_INDEX, 0}
#define NUMBER(name) {name, NUMBER_SIGNED, 0}
#define UNSIGNED(name) {name, NUMBER_UNSIGNED, 0}
#define WRAPPED(name) {name, NUMBER_WRAPPED, 0}
#define OBJECT(name) {name, ANY_OBJECT, 0}

/* What was given for an argument. */
typedef struct {
    Py_buffer view;   /* an array; its `obj` is NULL for anything else */
    Py_ssize_t count; /* the items of an array */
    int64_t number;   /* a number; an unsigned one is to be converted back */
    PyObject *object; /* anything else, borrowed */
} Value;

/* Open an array.  Returns -1 with an exception set if it is not as required. */
static inline int array_open(Value *value, PyObject *object, const Argument *argument) {
    if (PyObject_GetBuffer(object, &value->view, argument->kind == ARRAY_WRITTEN ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0)
        return -1;
    if (value->view.itemsize != argument->width) {
        PyErr_Format(PyExc_TypeError, "%s: items of %zd bytes, not %zd", argument->name, argument->width,
                     value->view.itemsize);
        return -1;
    }
    value->count = value->view.len / argument->width;
    return 0;
}

/* Open or convert an argument.  Returns -1 with an exception set if it is not as required. */
static inline int value_open(Value *value, PyObject *object, const Argument *argument) {
    switch (argument->kind) {
    case ARRAY_OR_NUMBER:
        if (!PyLong_Check(object))
            return array_open(value, object, argument);
        value->number = PyLong_AsLongLong(object);
        break;
    case NUMBER_INDEX:
        value->number = PyLong_AsSsize_t(object);
        break;
    case NUMBER_SIGNED:
        value->number = PyLong_AsLongLong(object);
        break;
    case NUMBER_UNSIGNED:
        value->number = (int64_t)PyLong_AsUnsignedLongLong(object);
        break;
    case NUMBER_WRAPPED:
        value->number = (int64_t)PyLong_AsUnsignedLongLongMask(object);
        break;
    case ANY_OBJECT:
        value->object = object;
        return 0;
    default:
        return array_open(value, object, argument);
    }
    return value->number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Release the arrays that are open.  Returns the result of the kernel, which is NULL with an exception set. */
static inline PyObject *call_close(Value *values, int count, PyObject *result) {
    for (int i = 0; i < count; i++)
        if (values[i].view.obj != NULL)
            PyBuffer_Release(&values[i].view);
    return result;
}

/* Open all arguments of a kernel, or none.  Returns -1 with an exception set if they are not as required. */
static inline int call_open(Value *values, const char *kernel, const Argument *arguments, int count,
                            PyObject *const *objects, Py_ssize_t given) {
    if (given != count) {
        PyErr_Format(PyExc_TypeError, "%s takes %d arguments", kernel, count);
        return -1;
    }
    for (int i = 0; i < count; i++)
        values[i].view.obj = NULL;
    for (int i = 0; i < count; i++)
        if (value_open(&values[i], objects[i], &arguments[i]) < 0) {
            call_close(values, count, NULL);
            return -1;
        }
    return 0;
}

/* Raise ValueError.  Returns -1, the result of a function that fails. */
static inline int refuse_with(const char *why) {
    PyErr_SetString(PyExc_ValueError, why);
    return -1;
}

/* Raise ValueError.  Returns NULL, the result of a kernel that fails. */
static inline PyObject *refuse(const char *why) {
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

#endif
